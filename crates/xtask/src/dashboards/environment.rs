//! The system that the dashboards observe: PostgreSQL, the exporter and Prometheus.

use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use redrive::dlq::ForeignFailure;
use tempfile::TempDir;

use super::context::{connect, run};
use super::scenarios;
use crate::cargo::Artifacts;
use crate::child::ChildGuard;
use crate::cluster::{Cluster, Durability};
use crate::interrupt::Interrupt;
use crate::postgres::Binaries;
use crate::prometheus::{self, Intervals, free_address, start_exporter};

/// Prometheus scrapes often, so that a minute has many samples.
const INTERVALS: Intervals = Intervals {
    scrape: 1,
    evaluation: 5,
};
/// How long the exporter may take to stop.
const GRACE: Duration = Duration::from_secs(15);

/// The running system, with the time span of its scenarios.
#[derive(Debug)]
pub(crate) struct Environment<'a> {
    interrupt: &'a Interrupt,
    pub(crate) programs: Artifacts,
    pub(crate) url: String,
    from: u64,
    to: u64,
    exporter_address: String,
    exporter: ChildGuard,
    prometheus_address: String,
    _prometheus: ChildGuard,
    _folder: TempDir,
    // Dropped last: the others have connections to it.
    _cluster: Cluster,
}

impl<'a> Environment<'a> {
    pub(crate) fn start(interrupt: &'a Interrupt) -> Result<Environment<'a>> {
        let targets = ["--bin", "redrive", "--bin", "redrive-exporter"];
        let programs = Artifacts::build(&targets, interrupt)?;
        let folder = tempfile::tempdir().context("cannot create a temporary folder")?;
        let server = Binaries::find(interrupt)?;
        let cluster = Cluster::start(&server, Durability::Throwaway, interrupt)?;
        let url = cluster.create_database("shop")?;
        prepare(&url)?;
        let exporter_address = free_address("127.0.0.1:0")?;
        let exporter = start_exporter(&programs, &url, &exporter_address, interrupt)?;
        let prometheus_address = free_address("127.0.0.1:0")?;
        let prometheus = prometheus::start(
            &exporter_address,
            &prometheus_address,
            INTERVALS,
            folder.path(),
            interrupt,
        )?;
        Ok(Environment {
            interrupt,
            programs,
            url,
            from: now(),
            to: now(),
            exporter_address,
            exporter,
            prometheus_address,
            _prometheus: prometheus,
            _folder: folder,
            _cluster: cluster,
        })
    }

    /// Runs all scenarios, with a pause after each.
    pub(crate) fn run_scenarios(&mut self, pause: Duration) -> Result<()> {
        self.from = now();
        let (url, programs) = (&self.url, &self.programs);
        scenarios::run_all(url, programs, self.interrupt, pause, &mut || {
            // A deployment replaces the exporter; its series must continue.
            self.exporter.stop(self.interrupt, GRACE)?;
            let address = &self.exporter_address;
            self.exporter = start_exporter(programs, url, address, self.interrupt)?;
            Ok(())
        })?;
        self.to = now();
        Ok(())
    }

    /// Passes the address of Prometheus and the time span to a check.
    pub(crate) fn describe(&self, check: &mut Command) {
        let url = format!("http://{}", self.prometheus_address);
        check.args(["--prometheus", &url]);
        check.args(["--from", &self.from.to_string()]);
        check.args(["--to", &self.to.to_string()]);
        check.args(["--scrape", &INTERVALS.scrape.to_string()]);
    }
}

/// Prepares the database: the schema, a replication slot without a reader, old letters.
fn prepare(url: &str) -> Result<()> {
    let db = redrive::connect(url).context("cannot connect to the database")?;
    db.migrate().context("cannot migrate the database")?;
    let mut admin = connect(url)?;
    for statement in [
        "ALTER SYSTEM SET max_slot_wal_keep_size = '1GB'",
        "SELECT pg_reload_conf()",
        "SELECT pg_stat_reset()",
        "SELECT pg_create_physical_replication_slot('nightly_backup', true)",
        "CREATE TABLE accounts (id bigint PRIMARY KEY, balance bigint NOT NULL)",
        "INSERT INTO accounts VALUES (1, 0)",
    ] {
        run(&mut admin, statement)?;
    }
    for (days, position) in [(0.1, "0/17"), (2.0, "0/18"), (9.0, "0/19")] {
        let event = ForeignFailure::new(
            "kafka:orders",
            position,
            "orders",
            "order.placed",
            b"{broken".to_vec(),
        )
        .error("ParseError", "expected `}`");
        db.dlq().capture(&event)?;
        // Age the row instead of the clock.
        let age = format!(
            "UPDATE redrive.dead_letters SET died_at = died_at - interval '{days} days' \
             WHERE position = '{position}'"
        );
        run(&mut admin, &age)?;
    }
    Ok(())
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default().as_secs()
}
