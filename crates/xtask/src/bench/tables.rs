//! The tables of the last results in benches/README.md.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use redrive_benches::{Figure, Measurement, shown};

use super::results::Results;
use super::rivals;
use anyhow::{Context as _, Result, anyhow};

const FROM: &str = "<!-- results: written by `cargo xtask bench --publish` -->\n";
const TO: &str = "<!-- end of results -->";

/// Replaces the text between the marks.
pub(super) fn write(file: &Path, results: &Results) -> Result<()> {
    let page =
        fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let page = replaced(&page, &tables(results))
        .ok_or_else(|| anyhow!("{} has no marks for the results", file.display()))?;
    fs::write(file, page).with_context(|| format!("cannot write {}", file.display()))
}

fn replaced(page: &str, tables: &str) -> Option<String> {
    let (before, rest) = page.split_once(FROM)?;
    let (_, after) = rest.split_once(TO)?;
    Some(format!("{before}{FROM}{tables}{TO}{after}"))
}

fn tables(results: &Results) -> String {
    let mut page = overview(results);
    // Writing to a String cannot fail.
    if let Some(machine) = &results.machine {
        _ = writeln!(
            page,
            "\n![Bars: the share of its target that each number reaches](results.svg)\n\n{machine}.\n"
        );
    }
    for one in &results.scenarios {
        _ = writeln!(
            page,
            "### {}\n\n{}\n{} UTC, commit {}, {} s.\n\n\
             | | baseline | redrive | unit | ratio | target | |\n|---|---:|---:|---|---:|---|---|",
            one.name, one.description, one.at, one.commit, one.seconds
        );
        for measurement in &one.measurements {
            _ = writeln!(page, "{}", line(measurement));
        }
        page.push('\n');
    }
    page
}

/// Returns one line for each number with a target or a rival, which fit on one screen.
fn overview(results: &Results) -> String {
    let mut page = "\n| | ratio | redrive | target | |\n|---|---:|---:|---|---|\n".to_owned();
    for one in &results.scenarios {
        let is_shown = |row: &&Measurement| row.target.is_some() || one.name == rivals::SCENARIO;
        for row in one.measurements.iter().filter(is_shown) {
            // Writing to a String cannot fail.
            _ = writeln!(
                page,
                "| [{name}](#{name}): {} | {} | {} | {} | {} |",
                row.name.replace('|', "\\|"),
                row.ratio
                    .map(|ratio| shown(ratio.median))
                    .unwrap_or_default(),
                format!("{} {}", shown(row.redrive.median), row.unit).trim_end(),
                target(row),
                verdict(row),
                name = one.name,
            );
        }
    }
    page
}

fn target(measurement: &Measurement) -> String {
    measurement
        .target
        .map_or_else(String::new, |target| target.to_string())
}

fn verdict(measurement: &Measurement) -> &'static str {
    match measurement.is_met() {
        Some(true) => "met",
        Some(false) => "**missed**",
        None => "",
    }
}

fn line(measurement: &Measurement) -> String {
    let spread = |figure: Figure| match figure.min < figure.max {
        true => format!(
            "{} ({}–{})",
            shown(figure.median),
            shown(figure.min),
            shown(figure.max)
        ),
        false => shown(figure.median),
    };
    let note = measurement
        .note
        .as_ref()
        .map(|note| format!("<br>{note}"))
        .unwrap_or_default();
    format!(
        "| {}{} | {} | {} | {} | {} | {} | {} |",
        measurement.name.replace('|', "\\|"),
        note.replace('|', "\\|"),
        measurement.baseline.map(spread).unwrap_or_default(),
        spread(measurement.redrive),
        measurement.unit,
        measurement.ratio.map(spread).unwrap_or_default(),
        target(measurement),
        verdict(measurement),
    )
}

#[cfg(test)]
mod tests {
    use redrive_benches::Target;

    use super::super::results::ScenarioResult;
    use super::super::results::tests::measurement;
    use super::*;

    #[test]
    fn only_the_text_between_the_marks_is_replaced() {
        let page = format!("# A\n{FROM}old\n{TO}\n# B\n");
        let new = replaced(&page, "new\n").expect("the page has marks");
        assert_eq!(new, format!("# A\n{FROM}new\n{TO}\n# B\n"));
        assert_eq!(replaced("# A\n", "new"), None);
    }

    #[test]
    fn the_readme_of_the_benchmarks_has_the_marks() {
        let page = include_str!("../../../../benches/README.md");
        let new = replaced(page, "\nnew\n").expect("the page has marks");
        assert!(new.starts_with("# Benchmarks") && new.contains("## Other queues"));
    }

    #[test]
    fn the_overview_shows_numbers_with_a_target_and_all_of_the_rivals() {
        let plain = Measurement::new("plain", "ms", 2.0);
        let drain = measurement(300_000.0, 4.0, Target::RatioAtLeast(5.0));
        let scenario = |name: &str| ScenarioResult {
            name: name.to_owned(),
            description: String::new(),
            at: String::new(),
            commit: String::new(),
            seconds: 1,
            measurements: vec![plain.clone(), drain.clone()],
        };
        let results = Results {
            machine: None,
            scenarios: vec![scenario("drain"), scenario("rivals")],
        };
        let page = overview(&results);
        let rows: Vec<&str> = page.lines().skip(3).collect();
        assert_eq!(
            rows,
            [
                "| [drain](#drain): drain | 4.00 | 300,000 jobs/s | ratio ≥ 5 | **missed** |",
                "| [rivals](#rivals): plain |  | 2.00 ms |  |  |",
                "| [rivals](#rivals): drain | 4.00 | 300,000 jobs/s | ratio ≥ 5 | **missed** |",
            ]
        );
    }

    #[test]
    fn a_measurement_is_a_line() {
        let mut drain = measurement(300_000.0, 0.4, Target::RatioAtLeast(0.8));
        drain.redrive.min = 250_000.0;
        drain.note = Some("a|b".to_owned());
        assert_eq!(
            line(&drain),
            "| drain<br>a\\|b | 750,000 | 300,000 (250,000–300,000) | jobs/s | 0.40 | ratio ≥ 0.8 | **missed** |"
        );
    }
}
