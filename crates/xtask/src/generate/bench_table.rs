//! The table of the last results in benches/README.md.

use std::path::Path;

use anyhow::Result;
use redrive_benches::{Figure, Measurement, shown};

use super::{Generated, between};
use crate::bench::{PUBLISHED, Results, rivals};

const FILE: &str = "benches/README.md";
const MARKS: (&str, &str) = (
    "<!-- results: written by `cargo xtask generate` -->\n",
    "<!-- end of results -->",
);

/// Returns the README with one line for each number with a target or a rival, which fit on one screen. The file of
/// results has all.
pub(super) fn generated(root: &Path) -> Result<Generated> {
    let results = Results::read(&root.join(PUBLISHED))?;
    let mut page =
        "\n| | redrive | ratio to the baseline | measured |\n|---|---:|---:|---|\n".to_owned();
    for one in &results.scenarios {
        let is_shown = |row: &&Measurement| row.target.is_some() || one.name == rivals::SCENARIO;
        page.extend(one.measurements.iter().filter(is_shown).map(|row| {
            format!(
                "| {}: {} | {} | {} | {} |\n",
                one.name,
                row.name.replace('|', "\\|"),
                format!("{} {}", shown(row.redrive.median), row.unit).trim_end(),
                row.ratio.map(spread).unwrap_or_default(),
                // The date without the time of day.
                one.at.split(' ').next().unwrap_or_default(),
            )
        }));
    }
    let machine = results.machine.iter();
    page.extend(machine.map(|machine| format!("\n{machine}.\n\n")));
    between(root, FILE, MARKS, &page)
}

fn spread(figure: Figure) -> String {
    let median = shown(figure.median);
    match figure.min < figure.max {
        true => format!("{median} ({}–{})", shown(figure.min), shown(figure.max)),
        false => median,
    }
}
