//! What a scenario reports: rows of numbers beside their floor and their target.

use serde::Serialize;

/// What several rounds of the same measured.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    /// Nothing measured yet.
    pub fn new() -> Samples {
        Samples::default()
    }

    /// One more round.
    pub fn push(&mut self, sample: f64) {
        self.0.push(sample);
    }

    /// The last round's.
    pub fn last(&self) -> Option<f64> {
        self.0.last().copied()
    }

    /// The median and the extremes. All 0 when nothing was measured.
    pub fn figure(&self) -> Figure {
        let mut sorted = self.0.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |place: usize| sorted.get(place).copied().unwrap_or_default();
        let (low, high) = (at(sorted.len().saturating_sub(1) / 2), at(sorted.len() / 2));
        Figure {
            median: f64::midpoint(low, high),
            least: at(0),
            most: at(sorted.len().saturating_sub(1)),
        }
    }

    /// These, divided by those of the same round: what both felt of the machine goes out.
    #[must_use]
    pub fn to(&self, floor: &Samples) -> Samples {
        self.0.iter().zip(&floor.0).map(|(a, b)| a / b).collect()
    }
}

impl FromIterator<f64> for Samples {
    fn from_iter<I: IntoIterator<Item = f64>>(samples: I) -> Samples {
        Samples(samples.into_iter().collect())
    }
}

/// A number with its spread.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// The median of the rounds.
    pub median: f64,
    /// The least of them.
    pub least: f64,
    /// The most of them.
    pub most: f64,
}

impl From<f64> for Figure {
    fn from(only: f64) -> Figure {
        Figure {
            median: only,
            least: only,
            most: only,
        }
    }
}

impl From<&Samples> for Figure {
    fn from(samples: &Samples) -> Figure {
        samples.figure()
    }
}

/// What a row should reach.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Target {
    /// This ratio to the floor or more.
    RatioAtLeast(f64),
    /// This ratio to the floor or less.
    RatioAtMost(f64),
    /// This number or more, in the row's unit.
    AtLeast(f64),
    /// This number or less, in the row's unit.
    AtMost(f64),
}

/// One line of a scenario's report.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// What was measured.
    pub name: String,
    /// The unit of `ours` and `floor`: "jobs/s", "ms", "bytes".
    pub unit: &'static str,
    /// What redrive does.
    pub ours: Figure,
    /// What it is compared with.
    pub floor: Option<Figure>,
    /// The median over the rounds of ours to the floor of the same round.
    pub ratio: Option<Figure>,
    /// What it should be.
    pub target: Option<Target>,
    /// What a reader must know beside the numbers.
    pub note: Option<String>,
}

impl Row {
    /// A number.
    pub fn new(name: impl Into<String>, unit: &'static str, ours: impl Into<Figure>) -> Row {
        Row {
            name: name.into(),
            unit,
            ours: ours.into(),
            floor: None,
            ratio: None,
            target: None,
            note: None,
        }
    }

    /// A number beside its floor, measured by turns.
    pub fn beside(
        name: impl Into<String>,
        unit: &'static str,
        floor: &Samples,
        ours: &Samples,
    ) -> Row {
        Row {
            floor: Some(floor.into()),
            ratio: Some(ours.to(floor).figure()),
            ..Row::new(name, unit, ours)
        }
    }

    /// What it should be.
    #[must_use]
    pub fn target(self, target: Target) -> Row {
        Row {
            target: Some(target),
            ..self
        }
    }

    /// What a reader must know beside the numbers.
    #[must_use]
    pub fn note(self, note: impl Into<String>) -> Row {
        Row {
            note: Some(note.into()),
            ..self
        }
    }

    /// Whether the target is met; `None` without one.
    pub fn is_met(&self) -> Option<bool> {
        let ratio = self.ratio.map_or(f64::NAN, |ratio| ratio.median);
        Some(match self.target? {
            Target::RatioAtLeast(target) => ratio >= target,
            Target::RatioAtMost(target) => ratio <= target,
            Target::AtLeast(target) => self.ours.median >= target,
            Target::AtMost(target) => self.ours.median <= target,
        })
    }

    /// One line for a terminal.
    pub fn line(&self) -> String {
        let floor = self
            .floor
            .map_or_else(|| "-".to_owned(), |floor| shown(floor.median));
        let ratio = self.ratio.map_or_else(
            || "-".to_owned(),
            |ratio| format!("{:.2} ({:.2}-{:.2})", ratio.median, ratio.least, ratio.most),
        );
        let target = match self.target {
            Some(Target::RatioAtLeast(target)) => format!("ratio >= {target}"),
            Some(Target::RatioAtMost(target)) => format!("ratio <= {target}"),
            Some(Target::AtLeast(target)) => format!(">= {}", shown(target)),
            Some(Target::AtMost(target)) => format!("<= {}", shown(target)),
            None => String::new(),
        };
        let verdict = match self.is_met() {
            Some(true) => "met",
            Some(false) => "MISSED",
            None => "",
        };
        format!(
            "{:<52} {floor:>11} {:>11} {:<10} {ratio:>18}  {target:<15} {verdict}",
            self.name,
            shown(self.ours.median),
            self.unit,
        )
    }
}

/// The head of a table of lines.
pub(crate) fn head() -> String {
    format!(
        "{:<52} {:>11} {:>11} {:<10} {:>18}  {:<15}",
        "", "floor", "redrive", "", "ratio", "target"
    )
}

/// A number with about three digits that matter.
fn shown(number: f64) -> String {
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
                least: 1.0,
                most: 5.0
            }
        );
        let even: Samples = [1.0, 2.0, 4.0, 8.0].into_iter().collect();
        assert!((even.figure().median - 3.0).abs() < 1e-9);
        assert!(Samples::new().figure().median.abs() < 1e-9);
    }

    #[test]
    fn a_ratio_is_taken_round_by_round() {
        // The machine halved its speed between the rounds; the ratio did not change.
        let floor: Samples = [200.0, 100.0].into_iter().collect();
        let ours: Samples = [100.0, 50.0].into_iter().collect();
        let row = Row::beside("x", "jobs/s", &floor, &ours);
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

    #[test]
    fn a_ratio_without_a_floor_meets_no_target() {
        let row = Row::new("x", "ms", 1.0).target(Target::RatioAtMost(2.0));
        assert_eq!(row.is_met(), Some(false));
    }

    #[test]
    fn numbers_are_shown_with_the_digits_that_matter() {
        for (number, text) in [
            (1_234_567.8, "1,234,568"),
            (123.4, "123"),
            (-1234.0, "-1,234"),
            (12.34, "12.3"),
            (0.456, "0.46"),
            (0.01234, "0.0123"),
            (0.0, "0.00"),
        ] {
            assert_eq!(shown(number), text);
        }
    }
}
