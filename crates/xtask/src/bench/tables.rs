//! The table of the last results in benches/README.md.

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
    let page = replaced(&page, &table(results))
        .ok_or_else(|| anyhow!("{} has no marks for the results", file.display()))?;
    fs::write(file, page).with_context(|| format!("cannot write {}", file.display()))
}

fn replaced(page: &str, tables: &str) -> Option<String> {
    let (before, rest) = page.split_once(FROM)?;
    let (_, after) = rest.split_once(TO)?;
    Some(format!("{before}{FROM}{tables}{TO}{after}"))
}

/// Returns one line for each number with a target or a rival, which fit on one screen. The file of results has all.
fn table(results: &Results) -> String {
    let mut page =
        "\n| | redrive | ratio to the baseline | measured |\n|---|---:|---:|---|\n".to_owned();
    for one in &results.scenarios {
        let is_shown = |row: &&Measurement| row.target.is_some() || one.name == rivals::SCENARIO;
        for row in one.measurements.iter().filter(is_shown) {
            // Writing to a String cannot fail.
            _ = writeln!(
                page,
                "| {}: {} | {} | {} | {} |",
                one.name,
                row.name.replace('|', "\\|"),
                format!("{} {}", shown(row.redrive.median), row.unit).trim_end(),
                row.ratio.map(spread).unwrap_or_default(),
                // The date without the time of day.
                one.at.split(' ').next().unwrap_or_default(),
            );
        }
    }
    if let Some(machine) = &results.machine {
        _ = writeln!(page, "\n{machine}.\n");
    }
    page
}

fn spread(figure: Figure) -> String {
    let median = shown(figure.median);
    match figure.min < figure.max {
        true => format!("{median} ({}–{})", shown(figure.min), shown(figure.max)),
        false => median,
    }
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
    fn the_table_shows_numbers_with_a_target_and_all_of_the_rivals() {
        let plain = Measurement::new("plain", "ms", 2.0);
        let mut drain = measurement(300_000.0, 4.0, Target::RatioAtLeast(5.0));
        if let Some(ratio) = &mut drain.ratio {
            ratio.min = 3.5;
        }
        let scenario = |name: &str| ScenarioResult {
            name: name.to_owned(),
            description: String::new(),
            at: "2026-11-21 23:00".to_owned(),
            commit: String::new(),
            seconds: 1,
            measurements: vec![plain.clone(), drain.clone()],
        };
        let results = Results {
            machine: None,
            scenarios: vec![scenario("drain"), scenario("rivals")],
        };
        let page = table(&results);
        let rows: Vec<&str> = page.lines().skip(3).collect();
        assert_eq!(
            rows,
            [
                "| drain: drain | 300,000 jobs/s | 4.00 (3.50–4.00) | 2026-11-21 |",
                "| rivals: plain | 2.00 ms |  | 2026-11-21 |",
                "| rivals: drain | 300,000 jobs/s | 4.00 (3.50–4.00) | 2026-11-21 |",
            ]
        );
    }
}
