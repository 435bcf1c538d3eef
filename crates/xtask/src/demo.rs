//! `cargo xtask demo`: an outage, malformed orders, a fix and a redrive, step by step.
//!
//! It uses a real PostgreSQL, an order service in its own process and a payment gateway behind
//! HTTP. Each step waits for a state, never for a time.

mod binaries;
mod gateway;
mod metrics;
mod orders;
mod reconciliation;
mod screen;
mod steps;

use std::env;
use std::path::PathBuf;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use clap::Args;

use self::binaries::{Session, TARGETS};
use self::metrics::Metrics;
use self::orders::Forecast;
use self::screen::Screen;
use self::steps::Steps;
use crate::cargo::Artifacts;
use crate::cluster::{Cluster, Durability};
use crate::interrupt::Interrupt;
use crate::postgres;

/// How many orders are generated.
const EVENTS: u64 = 20_000;

#[derive(Debug, Args)]
pub(crate) struct DemoOptions {
    /// Orders to deliver, one JSON object a line [default: 20,000 generated ones]
    #[arg(value_name = "FILE.ndjson")]
    file: Option<PathBuf>,
    /// Run Prometheus on the exporter afterwards, until Ctrl-C
    #[arg(long)]
    watch: bool,
}

/// Runs the demo. It fails if an order is lost or charged twice.
pub(crate) fn run(options: &DemoOptions, interrupt: &Interrupt) -> Result<()> {
    let mut screen = Screen::new();
    let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
    let file = match &options.file {
        Some(file) => file.clone(),
        None => {
            let file = folder.path().join("orders.ndjson");
            orders::write(&file, EVENTS)?;
            file
        }
    };
    let forecast = Forecast::of(&file)?;
    let programs = Artifacts::build(&TARGETS, interrupt)?;

    let start = Instant::now();
    println!("redrive: a Friday evening");
    let database = Database::open(interrupt, &mut screen)?;
    let session = Session {
        programs: &programs,
        queue: &database.queue,
        url: &database.url,
        folder: folder.path(),
        interrupt,
    };
    Steps::prepare(session, &forecast, &mut screen)?.run(&file)?;
    let metrics = Metrics::start(session, &mut screen)?;
    println!("\nDone in {:.0} s.", start.elapsed().as_secs_f64());
    if options.watch {
        return metrics.watch(session, &mut screen);
    }
    println!("The exporter has stopped; `--watch` keeps it running.");
    Ok(())
}

/// The database of the demo.
#[derive(Debug)]
struct Database {
    /// Runs until the end of the demo.
    _cluster: Option<Cluster>,
    url: String,
    queue: String,
}

impl Database {
    /// Uses the database that `DATABASE_URL` names, or starts a temporary cluster.
    fn open(interrupt: &Interrupt, screen: &mut Screen) -> Result<Database> {
        if let Some(url) = env::var("DATABASE_URL").ok().filter(|url| !url.is_empty()) {
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            // The user's database may hold real orders, which the demo must not touch.
            let queue = format!("demo-orders-{}", since.unwrap_or_default().as_secs());
            screen.print(format!("Using DATABASE_URL and the queue `{queue}`."));
            return Ok(Database {
                _cluster: None,
                url,
                queue,
            });
        }
        let binaries = postgres::Binaries::find(interrupt)?;
        let start = Instant::now();
        let cluster = Cluster::start(&binaries, Durability::Durable, interrupt)?;
        let url = cluster.create_database("redrive")?;
        screen.print(format!(
            "Started a temporary PostgreSQL {} in {:.1} s: {url}",
            binaries.version(),
            start.elapsed().as_secs_f64()
        ));
        Ok(Database {
            _cluster: Some(cluster),
            url,
            queue: "orders".to_owned(),
        })
    }
}
