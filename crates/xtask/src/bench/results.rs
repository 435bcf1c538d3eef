//! The file of results, updated scenario by scenario.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use serde::{Deserialize, Serialize};

use redrive_benches::Measurement;

use super::machine::Machine;

/// The results of one scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ScenarioResult {
    pub(crate) name: String,
    /// A sentence that describes it.
    pub(crate) description: String,
    /// The time in UTC.
    pub(crate) at: String,
    /// The commit of redrive.
    pub(crate) commit: String,
    /// How long the scenario took.
    pub(crate) seconds: u64,
    pub(crate) measurements: Vec<Measurement>,
}

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    /// The machine of the last run.
    pub(crate) machine: Option<Machine>,
    pub(crate) scenarios: Vec<ScenarioResult>,
}

impl Results {
    /// Reads a file, or returns no results if there is none.
    pub(crate) fn read(file: &Path) -> Result<Results> {
        match fs::read_to_string(file) {
            Ok(text) => serde_json::from_str(&text).with_context(|| {
                format!(
                    "{} is not a file of results; remove it or name another",
                    file.display()
                )
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Results::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
        }
    }

    /// Writes a file.
    pub(crate) fn write(&self, file: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| anyhow!("cannot write results: {error}"))?;
        fs::write(file, text + "\n").with_context(|| format!("cannot write {}", file.display()))
    }

    /// Replaces the results of one scenario.
    pub(crate) fn replace(&mut self, machine: &Machine, one: ScenarioResult) {
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
    use redrive_benches::{Figure, Target};

    use super::*;

    pub(crate) fn measurement(redrive: f64, ratio: f64, target: Target) -> Measurement {
        Measurement {
            baseline: Some(Figure::from(redrive / ratio)),
            ratio: Some(Figure::from(ratio)),
            ..Measurement::new("drain", "jobs/s", redrive).target(target)
        }
    }

    #[test]
    fn a_file_is_updated_scenario_by_scenario() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("results.json");
        let mut results = Results::read(&file).expect("no file yet");
        let one = |name: &str, seconds| ScenarioResult {
            name: name.to_owned(),
            description: "x".to_owned(),
            at: "2026-11-21 23:00".to_owned(),
            commit: "abc".to_owned(),
            seconds,
            measurements: vec![measurement(1.0, 1.0, Target::AtLeast(1.0))],
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
        assert!(error.contains("is not a file of results"), "{error}");
    }
}
