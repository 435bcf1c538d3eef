//! The tables of the last results, written into the page between two marks.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::results::{Figure, Results, Row, Target};
use crate::error::{During, Error, Result};

const FROM: &str = "<!-- results: written by `cargo xtask bench --publish` -->\n";
const TO: &str = "<!-- end of results -->";

/// Replaces what is between the marks.
pub(super) fn write(file: &Path, results: &Results) -> Result<()> {
    let page = fs::read_to_string(file).during(|| format!("cannot read {}", file.display()))?;
    let page = replaced(&page, &tables(results))
        .ok_or_else(|| Error::new(format!("{} has no marks for results", file.display())))?;
    fs::write(file, page).during(|| format!("cannot write {}", file.display()))
}

fn replaced(page: &str, tables: &str) -> Option<String> {
    let (before, rest) = page.split_once(FROM)?;
    let (_, after) = rest.split_once(TO)?;
    Some(format!("{before}{FROM}{tables}{TO}{after}"))
}

fn tables(results: &Results) -> String {
    let mut page = String::new();
    // Writing to a String cannot fail.
    if let Some(machine) = &results.machine {
        _ = writeln!(page, "\n{machine}.\n");
    }
    for one in &results.scenarios {
        _ = writeln!(
            page,
            "### {}\n\n{}\n{} UTC, commit {}, {} s.\n\n\
             | | floor | redrive | unit | ratio | target | |\n|---|---:|---:|---|---:|---|---|",
            one.name, one.what, one.at, one.commit, one.seconds
        );
        for row in &one.rows {
            _ = writeln!(page, "{}", line(row));
        }
        page.push('\n');
    }
    page
}

fn line(row: &Row) -> String {
    let spread = |figure: Figure| match figure.least < figure.most {
        true => format!(
            "{} ({}–{})",
            shown(figure.median),
            shown(figure.least),
            shown(figure.most)
        ),
        false => shown(figure.median),
    };
    let note = row
        .note
        .as_ref()
        .map(|note| format!("<br>{note}"))
        .unwrap_or_default();
    let target = match row.target {
        Some(Target::RatioAtLeast(target)) => format!("ratio ≥ {target}"),
        Some(Target::RatioAtMost(target)) => format!("ratio ≤ {target}"),
        Some(Target::AtLeast(target)) => format!("≥ {}", shown(target)),
        Some(Target::AtMost(target)) => format!("≤ {}", shown(target)),
        None => String::new(),
    };
    let verdict = match row.reached() {
        Some(reached) if reached >= 1.0 => "met",
        Some(_) => "**missed**",
        None => "",
    };
    format!(
        "| {}{} | {} | {} | {} | {} | {target} | {verdict} |",
        row.name.replace('|', "\\|"),
        note.replace('|', "\\|"),
        row.floor.map(spread).unwrap_or_default(),
        spread(row.ours),
        row.unit,
        row.ratio.map(spread).unwrap_or_default(),
    )
}

/// A number with about three digits that matter.
pub(super) fn shown(number: f64) -> String {
    match number.abs() {
        large if large >= 100.0 => {
            let digits = format!("{:.0}", number.abs());
            let mut grouped = String::new();
            for (at, digit) in digits.chars().enumerate() {
                if at > 0 && (digits.len() - at).is_multiple_of(3) {
                    grouped.push(',');
                }
                grouped.push(digit);
            }
            let sign = if number < 0.0 { "-" } else { "" };
            format!("{sign}{grouped}")
        }
        middle if middle >= 10.0 => format!("{number:.1}"),
        small if small >= 0.1 || small == 0.0 => format!("{number:.2}"),
        _ => format!("{number:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::row;
    use super::*;

    #[test]
    fn what_is_between_the_marks_is_replaced_and_nothing_else() {
        let page = format!("# A\n{FROM}old\n{TO}\n# B\n");
        let new = replaced(&page, "new\n").expect("it has marks");
        assert_eq!(new, format!("# A\n{FROM}new\n{TO}\n# B\n"));
        assert_eq!(replaced("# A\n", "new"), None);
    }

    #[test]
    fn the_page_of_the_benchmarks_has_the_marks() {
        let page = include_str!("../../../../benches/README.md");
        let new = replaced(page, "\nnew\n").expect("it has marks");
        assert!(new.starts_with("# Benchmarks") && new.contains("## Others"));
    }

    #[test]
    fn a_row_is_a_line() {
        let mut row = row(300_000.0, 0.4, Target::RatioAtLeast(0.8));
        row.ours.least = 250_000.0;
        row.note = Some("a|b".to_owned());
        assert_eq!(
            line(&row),
            "| drain<br>a\\|b | 750,000 | 300,000 (250,000–300,000) | jobs/s | 0.40 | ratio ≥ 0.8 | **missed** |"
        );
    }

    #[test]
    fn numbers_are_shown_with_the_digits_that_matter() {
        for (number, text) in [
            (1_234_567.8, "1,234,568"),
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
