//! `cargo xtask generate`: every file that is derived from another one.

mod alert_files;
mod bench_table;
mod metrics_page;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::cargo::workspace;
use crate::dashboards::Checks;
use crate::interrupt::Interrupt;

#[derive(Debug, Args)]
pub(crate) struct GenerateOptions {
    /// Write nothing, and fail if a file differs from what would be written
    #[arg(long)]
    check: bool,
}

/// A file and what it must contain.
struct Generated {
    /// Below the root.
    file: &'static str,
    text: String,
}

pub(crate) fn run(options: &GenerateOptions, interrupt: &Interrupt) -> Result<()> {
    let root = workspace()?;
    if options.check {
        return check(&root, interrupt);
    }
    write(&root)?;
    // They read the page of metrics.
    Checks::write(&root, interrupt)
}

/// Writes all but the dashboards.
pub(crate) fn write(root: &Path) -> Result<()> {
    for Generated { file, text } in generated(root)? {
        let path = root.join(file);
        if fs::read_to_string(&path).ok().as_ref() != Some(&text) {
            println!("    {file}");
            fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    Ok(())
}

/// The step of `cargo xtask test`: every generated file is up to date.
pub(crate) fn check(root: &Path, interrupt: &Interrupt) -> Result<()> {
    let stale: Vec<&str> = generated(root)?
        .iter()
        .filter(|one| fs::read_to_string(root.join(one.file)).ok().as_ref() != Some(&one.text))
        .map(|one| one.file)
        .collect();
    ensure!(
        stale.is_empty(),
        "out of date: {}; to update them: cargo xtask generate",
        stale.join(", ")
    );
    Checks::prepare(root, interrupt)?.check_written()
}

fn generated(root: &Path) -> Result<Vec<Generated>> {
    let mut all = vec![
        metrics_page::generated(root)?,
        bench_table::generated(root)?,
        Generated {
            file: "migrations/functions/filter_keys.sql",
            text: redrive::filter_keys(),
        },
    ];
    all.extend(alert_files::generated(root)?);
    Ok(all)
}

/// Returns a page with another text between its marks.
fn between(
    root: &Path,
    file: &'static str,
    (from, to): (&str, &str),
    text: &str,
) -> Result<Generated> {
    let page =
        fs::read_to_string(root.join(file)).with_context(|| format!("cannot read {file}"))?;
    let (before, rest) = page.split_once(from).unwrap_or_default();
    let after = rest.split_once(to).map(|(_, after)| after);
    let after = after.with_context(|| format!("{file} has no line {from}, or no end of it"))?;
    let text = format!("{before}{from}{text}{to}{after}");
    Ok(Generated { file, text })
}
