//! The plot: one bar for each number with a target, as long as the share of the target it reaches.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use redrive_benches::{Measurement, Target, shown};

use super::results::Results;
use anyhow::{Context as _, Result};

/// The widths of the plot, of the names, and of a bar that just meets its target.
const WIDTH: usize = 980;
const NAMES: f64 = 430.0;
const UNIT: f64 = 160.0;
/// Longer bars are cut.
const MAX: f64 = 2.0;
const LINE: usize = 22;
const TOP: usize = 46;

/// Writes the plot.
pub(super) fn write(file: &Path, results: &Results) -> Result<()> {
    fs::write(file, svg(results)).with_context(|| format!("cannot write {}", file.display()))
}

/// Returns an SVG without external parts, readable on light and dark pages.
fn svg(results: &Results) -> String {
    let bars: Vec<(String, &Measurement, f64)> = results
        .scenarios
        .iter()
        .flat_map(|one| one.measurements.iter().map(move |row| (one, row)))
        .filter_map(|(one, row)| Some((format!("{}: {}", one.name, row.name), row, row.reached()?)))
        .collect();
    let height = TOP + bars.len() * LINE + 12;
    let at = |reached: f64| NAMES + reached.min(MAX) * UNIT;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" \
         viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\" role=\"img\" \
         aria-label=\"The share of its target that each number reaches\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n\
         <text x=\"12\" y=\"20\" font-size=\"14\" font-weight=\"bold\">The share of its target that each number reaches</text>\n\
         <text x=\"12\" y=\"37\" fill=\"#555555\">1 meets the target; for a limit, the limit divided by the number; longer is better, cut at {MAX}</text>\n"
    );
    for (line, (name, row, reached)) in bars.iter().enumerate() {
        let y = TOP + line * LINE;
        let color = if *reached >= 1.0 {
            "#2e7d32"
        } else {
            "#c62828"
        };
        let text = y + 14;
        // Writing to a String cannot fail.
        _ = writeln!(
            svg,
            "<text x=\"{}\" y=\"{text}\" text-anchor=\"end\">{}</text>\
             <rect x=\"{NAMES}\" y=\"{}\" width=\"{:.1}\" height=\"{}\" fill=\"{color}\"/>\
             <text x=\"{:.1}\" y=\"{text}\">{}</text>",
            NAMES - 8.0,
            escaped(&cut(name)),
            y + 3,
            at(*reached) - NAMES,
            LINE - 7,
            at(*reached) + 6.0,
            escaped(&label(row)),
        );
    }
    let (one, bottom) = (at(1.0), height - 8);
    _ = writeln!(
        svg,
        "<line x1=\"{one}\" y1=\"{TOP}\" x2=\"{one}\" y2=\"{bottom}\" stroke=\"#000000\" stroke-dasharray=\"4 3\"/>\n</svg>"
    );
    svg
}

/// Returns the number with its target.
fn label(row: &Measurement) -> String {
    let ratio = row.ratio.map_or(0.0, |ratio| ratio.median);
    let redrive = shown(row.redrive.median);
    match row.target {
        Some(Target::RatioAtLeast(target)) => {
            format!("{ratio:.2} ≥ {target} ({redrive} {})", row.unit)
        }
        Some(Target::RatioAtMost(target)) => {
            format!("{ratio:.2} ≤ {target} ({redrive} {})", row.unit)
        }
        Some(Target::AtLeast(target)) => format!("{redrive} ≥ {} {}", shown(target), row.unit),
        Some(Target::AtMost(target)) => format!("{redrive} ≤ {} {}", shown(target), row.unit),
        None => redrive,
    }
    .replacen('≥', "of", usize::from(is_missed(row)))
    .replacen('≤', "over", usize::from(is_missed(row)))
}

fn is_missed(row: &Measurement) -> bool {
    row.reached().is_some_and(|reached| reached < 1.0)
}

/// Cuts a name to the width.
fn cut(name: &str) -> String {
    const MAX: usize = 66;
    match name.chars().count() > MAX {
        true => name.chars().take(MAX - 1).chain(['…']).collect(),
        false => name.to_owned(),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::super::results::ScenarioResult;
    use super::super::results::tests::measurement;
    use super::*;

    #[test]
    fn each_number_with_a_target_has_a_bar() {
        let one = ScenarioResult {
            name: "drain".to_owned(),
            description: "x".to_owned(),
            at: String::new(),
            commit: String::new(),
            seconds: 1,
            measurements: vec![
                measurement(300_000.0, 0.4, Target::RatioAtLeast(0.8)),
                measurement(300.0, 1.0, Target::AtMost(600.0)),
                Measurement {
                    target: None,
                    ..measurement(1.0, 1.0, Target::AtMost(1.0))
                },
            ],
        };
        let svg = svg(&Results {
            machine: None,
            scenarios: vec![one],
        });
        assert_eq!(svg.matches("<rect x=").count(), 2);
        assert!(svg.contains("0.40 of 0.8 (300,000 jobs/s)"), "{svg}");
        assert!(svg.contains("300 ≤ 600 jobs/s"), "{svg}");
        // Half and twice the target.
        assert!(
            svg.contains("width=\"80.0\"") && svg.contains("width=\"320.0\""),
            "{svg}"
        );
        assert_eq!(escaped("a<b>&c"), "a&lt;b&gt;&amp;c");
        assert_eq!(cut(&"ä".repeat(80)).chars().count(), 66);
    }
}
