//! What was measured, as a file that is brought up to date scenario by scenario.

use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use super::machine::Machine;
use crate::error::{During, Error, Result};

/// A number with its spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figure {
    /// The median of the rounds.
    pub(crate) median: f64,
    /// The least of them.
    pub(crate) least: f64,
    /// The most of them.
    pub(crate) most: f64,
}

/// What a row should reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Target {
    /// This ratio to the floor or more.
    RatioAtLeast(f64),
    /// This ratio to the floor or less.
    RatioAtMost(f64),
    /// This number or more.
    AtLeast(f64),
    /// This number or less.
    AtMost(f64),
}

/// A line of a scenario's report; benches/src/row.rs writes it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Row {
    /// What was measured.
    pub(crate) name: String,
    /// The unit of `ours` and `floor`.
    pub(crate) unit: String,
    /// What redrive does.
    pub(crate) ours: Figure,
    /// What it is compared with.
    pub(crate) floor: Option<Figure>,
    /// Ours to the floor, round by round.
    pub(crate) ratio: Option<Figure>,
    /// What it should be.
    pub(crate) target: Option<Target>,
    /// What a reader must know beside the numbers.
    pub(crate) note: Option<String>,
}

impl Row {
    /// How much of its target it reaches: 1 and more is met. `None` without a target.
    pub(crate) fn reached(&self) -> Option<f64> {
        let ratio = self.ratio.map_or(f64::NAN, |ratio| ratio.median);
        let ours = self.ours.median;
        // What may be nothing and is nothing is well below any limit.
        let below = |target: f64, number: f64| match number {
            nothing if nothing <= 0.0 => f64::INFINITY,
            some => target / some,
        };
        let reached = match self.target? {
            Target::RatioAtLeast(target) => ratio / target,
            Target::RatioAtMost(target) => below(target, ratio),
            Target::AtLeast(target) => ours / target,
            Target::AtMost(target) => below(target, ours),
        };
        Some(if reached.is_nan() { 0.0 } else { reached })
    }
}

/// What one scenario measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Measured {
    /// The scenario.
    pub(crate) name: String,
    /// What it measures.
    pub(crate) what: String,
    /// When, UTC.
    pub(crate) at: String,
    /// Which commit of redrive.
    pub(crate) commit: String,
    /// How long it took.
    pub(crate) seconds: u64,
    /// What it reported.
    pub(crate) rows: Vec<Row>,
}

/// The file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    /// On what it was measured, last.
    pub(crate) machine: Option<Machine>,
    /// By scenario.
    pub(crate) scenarios: Vec<Measured>,
}

impl Results {
    /// Reads a file; nothing when there is none yet.
    pub(crate) fn read(file: &Path) -> Result<Results> {
        match fs::read_to_string(file) {
            Ok(text) => serde_json::from_str(&text).during(|| {
                format!(
                    "{} holds no results; remove it, or name another file",
                    file.display()
                )
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Results::default()),
            Err(error) => Err(error).during(|| format!("cannot read {}", file.display())),
        }
    }

    /// Writes the file.
    pub(crate) fn write(&self, file: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| Error::new(format!("cannot write results: {error}")))?;
        fs::write(file, text + "\n").during(|| format!("cannot write {}", file.display()))
    }

    /// Takes what was measured, in the place of what was known of this scenario.
    pub(crate) fn take(&mut self, machine: &Machine, one: Measured) {
        self.machine = Some(machine.clone());
        match self
            .scenarios
            .iter_mut()
            .find(|known| known.name == one.name)
        {
            Some(known) => *known = one,
            None => self.scenarios.push(one),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn row(ours: f64, ratio: f64, target: Target) -> Row {
        let figure = |number| Figure {
            median: number,
            least: number,
            most: number,
        };
        Row {
            name: "drain".to_owned(),
            unit: "jobs/s".to_owned(),
            ours: figure(ours),
            floor: Some(figure(ours / ratio)),
            ratio: Some(figure(ratio)),
            target: Some(target),
            note: None,
        }
    }

    #[test]
    fn a_target_is_reached_at_one() {
        for (target, reached) in [
            (Target::RatioAtLeast(0.8), 0.5),
            (Target::RatioAtMost(0.8), 2.0),
            (Target::AtLeast(100.0), 2.0),
            (Target::AtMost(100.0), 0.5),
        ] {
            let found = row(200.0, 0.4, target).reached().expect("a target");
            assert!((found - reached).abs() < 1e-9, "{target:?}: {found}");
        }
        let nothing = row(0.0, 1.0, Target::AtMost(0.0));
        assert_eq!(nothing.reached(), Some(f64::INFINITY));
    }

    #[test]
    fn a_file_is_brought_up_to_date_scenario_by_scenario() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("results.json");
        let mut results = Results::read(&file).expect("there is none yet");
        let one = |name: &str, seconds| Measured {
            name: name.to_owned(),
            what: "x".to_owned(),
            at: "2026-11-21 23:00".to_owned(),
            commit: "abc".to_owned(),
            seconds,
            rows: vec![row(1.0, 1.0, Target::AtLeast(1.0))],
        };
        results.scenarios = vec![one("bulk", 1), one("drain", 1)];
        results.write(&file).expect("written");
        let mut again = Results::read(&file).expect("read");
        assert_eq!(again, results);
        again.scenarios[0] = one("bulk", 2);
        again.write(&file).expect("written");
        let last = Results::read(&file).expect("read");
        assert_eq!(last.scenarios, [one("bulk", 2), one("drain", 1)]);
        fs::write(&file, "{}x").expect("spoilt");
        let error = Results::read(&file).expect_err("no results").to_string();
        assert!(error.contains("holds no results"), "{error}");
    }
}
