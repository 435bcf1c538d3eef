//! The report of a scenario: measurements with their baseline and target.

use std::fmt::{self, Display, Formatter};

use serde::{Deserialize, Serialize};

/// One number from each of several rounds.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Adds the number of a round.
    pub fn push(&mut self, sample: f64) {
        self.0.push(sample);
    }

    /// Returns the number of the last round.
    pub fn last(&self) -> Option<f64> {
        self.0.last().copied()
    }

    /// Returns a part of the numbers: half of them are at most that of `0.5`.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        clippy::cast_sign_loss,
        reason = "a place in a list"
    )]
    pub fn at(&self, part: f64) -> f64 {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let place = ((sorted.len() as f64 * part) as usize).min(sorted.len().saturating_sub(1));
        sorted.get(place).copied().unwrap_or_default()
    }

    /// Returns the median and the extremes, or zeros if the list is empty.
    pub fn figure(&self) -> Figure {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |place: usize| sorted.get(place).copied().unwrap_or_default();
        let (low, high) = (at(sorted.len().saturating_sub(1) / 2), at(sorted.len() / 2));
        Figure {
            median: f64::midpoint(low, high),
            min: at(0),
            max: at(sorted.len().saturating_sub(1)),
        }
    }

    /// Divides each number by that of the same round, so that changes of the machine cancel out.
    #[must_use]
    pub fn to(&self, baseline: &Samples) -> Samples {
        self.0.iter().zip(&baseline.0).map(|(a, b)| a / b).collect()
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(samples: I) -> Samples {
        Samples(samples.into_iter().collect())
    }
}

/// A number with its spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The median of the rounds.
    pub median: f64,
    /// The minimum.
    pub min: f64,
    /// The maximum.
    pub max: f64,
}

impl From<f64> for Samples {
    fn from(only: f64) -> Samples {
        Samples(vec![only])
    }
}

impl From<f64> for Figure {
    fn from(only: f64) -> Figure {
        Figure {
            median: only,
            min: only,
            max: only,
        }
    }
}

impl From<&Samples> for Figure {
    fn from(samples: &Samples) -> Figure {
        samples.figure()
    }
}

/// The target of a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// At least this ratio to the baseline.
    RatioAtLeast(f64),
    /// At most this ratio to the baseline.
    RatioAtMost(f64),
    /// At least this number.
    AtLeast(f64),
    /// At most this number.
    AtMost(f64),
}

impl Display for Target {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Target::RatioAtLeast(target) => write!(f, "ratio ≥ {target}"),
            Target::RatioAtMost(target) => write!(f, "ratio ≤ {target}"),
            Target::AtLeast(target) => write!(f, "≥ {}", shown(*target)),
            Target::AtMost(target) => write!(f, "≤ {}", shown(*target)),
        }
    }
}

/// One number of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// A short description.
    pub name: String,
    /// The unit, such as "jobs/s", "ms" or "bytes".
    pub unit: String,
    /// The number of redrive.
    pub redrive: Figure,
    /// The number of the baseline.
    pub baseline: Option<Figure>,
    /// The ratio of both, round by round.
    pub ratio: Option<Figure>,
    /// The target.
    pub target: Option<Target>,
    /// A note for the reader.
    pub note: Option<String>,
}

impl Measurement {
    /// Creates a measurement without a baseline.
    pub fn new(name: impl Into<String>, unit: &str, redrive: impl Into<Figure>) -> Measurement {
        Measurement {
            name: name.into(),
            unit: unit.to_owned(),
            redrive: redrive.into(),
            baseline: None,
            ratio: None,
            target: None,
            note: None,
        }
    }

    /// Creates a measurement with a baseline.
    pub fn compared(
        name: impl Into<String>,
        unit: &str,
        baseline: &Samples,
        redrive: &Samples,
    ) -> Measurement {
        Measurement {
            baseline: Some(baseline.into()),
            ratio: Some(redrive.to(baseline).figure()),
            ..Measurement::new(name, unit, redrive)
        }
    }

    /// Sets the target.
    #[must_use]
    pub fn target(self, target: Target) -> Measurement {
        Measurement {
            target: Some(target),
            ..self
        }
    }

    /// Adds a note for the reader.
    #[must_use]
    pub fn note(self, note: impl Into<String>) -> Measurement {
        Measurement {
            note: Some(note.into()),
            ..self
        }
    }

    /// Returns whether the target is met, or `None` without a target.
    pub fn is_met(&self) -> Option<bool> {
        let ratio = self.ratio.map_or(f64::NAN, |ratio| ratio.median);
        let redrive = self.redrive.median;
        Some(match self.target? {
            Target::RatioAtLeast(target) => ratio >= target,
            Target::RatioAtMost(target) => ratio <= target,
            Target::AtLeast(target) => redrive >= target,
            Target::AtMost(target) => redrive <= target,
        })
    }

    /// Returns a line for a terminal.
    pub fn line(&self) -> String {
        let baseline = self
            .baseline
            .map_or_else(|| "-".to_owned(), |baseline| shown(baseline.median));
        let ratio = self.ratio.map_or_else(
            || "-".to_owned(),
            |ratio| format!("{:.2} ({:.2}-{:.2})", ratio.median, ratio.min, ratio.max),
        );
        let target = self
            .target
            .map_or_else(String::new, |target| target.to_string());
        let verdict = match self.is_met() {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        };
        format!(
            "{:<52} {baseline:>11} {:>11} {:<10} {ratio:>18}  {target:<15} {verdict}",
            self.name,
            shown(self.redrive.median),
            self.unit,
        )
    }
}

/// Returns the header of the lines.
pub(crate) fn head() -> String {
    format!(
        "{:<52} {:>11} {:>11} {:<10} {:>18}  {:<15}",
        "", "baseline", "redrive", "", "ratio", "target"
    )
}

/// Formats a number with about three significant digits.
pub fn shown(number: f64) -> String {
    match number.abs() {
        large if large >= 100.0 => {
            let digits = format!("{number:.0}");
            let mut grouped = String::new();
            for (at, digit) in digits.chars().enumerate() {
                if at > 0 && (digits.len() - at).is_multiple_of(3) && grouped != "-" {
                    grouped.push(',');
                }
                grouped.push(digit);
            }
            grouped
        }
        middle if middle >= 10.0 => format!("{number:.1}"),
        small if small >= 0.1 || small == 0.0 => format!("{number:.2}"),
        _ => format!("{number:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_the_median_and_the_extremes() {
        let samples: Samples = [5.0, 1.0, 4.0].into_iter().collect();
        assert_eq!(
            samples.figure(),
            Figure {
                median: 4.0,
                min: 1.0,
                max: 5.0
            }
        );
        let even: Samples = [1.0, 2.0, 4.0, 8.0].into_iter().collect();
        assert!((even.figure().median - 3.0).abs() < 1e-9);
        assert!(Samples::default().figure().median.abs() < 1e-9);
    }

    #[test]
    fn a_ratio_is_taken_round_by_round() {
        // The machine was half as fast in the second round; the ratio stays the same.
        let baseline: Samples = [200.0, 100.0].into_iter().collect();
        let redrive: Samples = [100.0, 50.0].into_iter().collect();
        let row = Measurement::compared("x", "jobs/s", &baseline, &redrive);
        assert_eq!(row.ratio, Some(Figure::from(0.5)));
        for (target, met) in [
            (Target::RatioAtLeast(0.5), true),
            (Target::RatioAtLeast(0.51), false),
            (Target::RatioAtMost(0.5), true),
            (Target::RatioAtMost(0.49), false),
            (Target::AtLeast(75.0), true),
            (Target::AtLeast(76.0), false),
            (Target::AtMost(75.0), true),
            (Target::AtMost(74.0), false),
        ] {
            assert_eq!(row.clone().target(target).is_met(), Some(met), "{target:?}");
        }
        assert_eq!(row.is_met(), None);
    }
}
