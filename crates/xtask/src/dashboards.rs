//! `cargo xtask dashboards`: the dashboards of `grafana/`, checked and drawn.
//!
//! Everything is real: a PostgreSQL, workers and an operator that make every number move, the
//! exporter, a Prometheus. The gates are programs of node in `grafana/check`, and what draws the
//! panels with the components of Grafana is in `grafana/render`.

mod acts;
mod catalogue;
mod commands;
mod gates;
mod hands;
mod needs;
mod shop;
mod stage;

use std::path::Path;
use std::time::Duration;

use clap::Args;

use self::gates::Gates;
use self::stage::Stage;
use crate::cargo::workspace;
use crate::error::{During, Result};
use crate::interrupt::Interrupt;

/// The dashboards, in the order of the README.
const DASHBOARDS: [&str; 4] = ["overview", "queue", "dead-letters", "postgres"];
/// How long each scene lasts when the gates are all that looks.
const BREATH: Duration = Duration::from_secs(2);

/// How the dashboards are drawn.
#[derive(Debug, Args)]
pub(crate) struct Options {
    /// How many minutes of life the screenshots show
    #[arg(long, value_name = "N", default_value_t = 10,
          value_parser = clap::value_parser!(u64).range(1..=120))]
    minutes: u64,
    /// Draw them on light as well
    #[arg(long)]
    light: bool,
}

/// Draws the screenshots of `grafana/screenshots`, once all gates are passed.
pub(crate) fn run(options: &Options, interrupt: &Interrupt) -> Result<()> {
    let root = workspace()?;
    let modes: &[&str] = if options.light {
        &["dark", "light"]
    } else {
        &["dark"]
    };
    // The quiet between the scenes is what makes them long.
    let breath = Duration::from_secs(options.minutes * 60) / acts::BREATHS;
    let pictures = root.join("grafana/screenshots");
    check_and_draw(&root, interrupt, breath, modes, &pictures)?;
    println!("\nThe screenshots are in {}.", pictures.display());
    Ok(())
}

/// The step of `cargo xtask test`: all gates, in a minute of life.
pub(crate) fn check(root: &Path, interrupt: &Interrupt) -> Result<()> {
    let pictures = root.join("target/grafana/pictures");
    check_and_draw(root, interrupt, BREATH, &["dark"], &pictures)
}

fn check_and_draw(
    root: &Path,
    interrupt: &Interrupt,
    breath: Duration,
    modes: &[&str],
    pictures: &Path,
) -> Result<()> {
    std::fs::create_dir_all(pictures).during(|| format!("cannot make {}", pictures.display()))?;
    needs::ensure(interrupt)?;
    let gates = Gates::ready(root, interrupt)?;
    gates.check_files()?;
    // While the scenes are played, npm fetches what draws.
    let life = Stage::set(root, interrupt)?.live(breath, || gates.prepare_drawing())?;
    // All of them are told before any of them ends it: such a life is not lived twice for nothing.
    let told = [
        commands::check(root, interrupt, &life),
        gates.check_scenes(&life),
        gates.check_queries(&life),
        gates.draw(&life, modes, pictures),
        gates.draw_screen(&life, pictures),
    ];
    told.into_iter().collect()
}

/// The files of the dashboards.
fn files(root: &Path) -> Vec<std::path::PathBuf> {
    DASHBOARDS
        .iter()
        .map(|name| root.join("grafana").join(format!("{name}.json")))
        .collect()
}
