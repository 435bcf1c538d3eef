//! `cargo xtask dashboards`: the dashboards in `grafana/`, checked and drawn.
//!
//! The checks run against real programs: PostgreSQL, workers, an operator, the exporter and
//! Prometheus. They are Node programs in `grafana/check`; `grafana/render` draws panels with
//! Grafana's components.

mod checks;
mod context;
mod environment;
mod scenarios;
mod workload;

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;

pub(crate) use self::checks::Checks;
use self::environment::Environment;
use crate::cargo::workspace;
use crate::interrupt::Interrupt;
use crate::programs::CHROMIUM;
use crate::test::Suite;

/// The dashboards, in the order of the README.
const DASHBOARDS: [&str; 4] = ["overview", "queue", "dead-letters", "postgres"];
/// The pause after each scenario in `cargo xtask test`.
const SHORT_PAUSE: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
pub(crate) struct DashboardOptions {
    /// How many minutes the screenshots show
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=120))]
    minutes: u64,
    /// Also draw the light theme
    #[arg(long)]
    light: bool,
}

/// How the dashboards are drawn.
pub(crate) struct Drawing<'a> {
    themes: &'a [&'a str],
    folder: PathBuf,
}

/// Draws `grafana/screenshots` after all checks have passed.
pub(crate) fn run(options: &DashboardOptions, interrupt: &Interrupt) -> Result<()> {
    let root = workspace()?;
    let drawing = Drawing {
        themes: match options.light {
            true => &["dark", "light"],
            false => &["dark"],
        },
        folder: root.join("grafana/screenshots"),
    };
    let pause = Duration::from_secs(options.minutes * 60) / scenarios::PAUSES;
    check_and_draw(&root, pause, &drawing, interrupt)?;
    println!("\nThe screenshots are in {}.", drawing.folder.display());
    Ok(())
}

/// The step of `cargo xtask test`. Only the deep suite starts a system and draws.
pub(crate) fn check(root: &Path, suite: Suite, interrupt: &Interrupt) -> Result<()> {
    match suite {
        Suite::Gate => Checks::prepare(root, interrupt)?.check_files(),
        Suite::Deep => {
            let drawing = Drawing {
                themes: &["dark"],
                folder: root.join("target/grafana/pictures"),
            };
            check_and_draw(root, SHORT_PAUSE, &drawing, interrupt)
        }
    }
}

fn check_and_draw(
    root: &Path,
    pause: Duration,
    drawing: &Drawing<'_>,
    interrupt: &Interrupt,
) -> Result<()> {
    let checks = Checks::prepare(root, interrupt)?;
    checks.check_files()?;
    CHROMIUM.find(interrupt)?;
    let folder = &drawing.folder;
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot create {}", folder.display()))?;
    checks.prepare_drawing()?;
    let mut recorded = Environment::start(interrupt)?;
    recorded.run_scenarios(pause)?;
    // Run all checks before failing: the scenarios take long.
    let results = [
        checks.check_metrics(&recorded),
        checks.check_queries(&recorded),
        checks.draw(&recorded, drawing),
        checks.draw_on_call_screen(&recorded, drawing),
    ];
    results.into_iter().collect()
}

/// The files of the dashboards.
fn files(root: &Path) -> Vec<PathBuf> {
    DASHBOARDS
        .iter()
        .map(|name| root.join("grafana").join(format!("{name}.json")))
        .collect()
}
