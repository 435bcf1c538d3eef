//! Processor time of this process and of the server, and WAL.

use std::collections::HashMap;
use std::time::Duration;

use redrive::postgres::Client;

use crate::{Bench, Outcome};

/// Linux counts processor time in /proc in ticks of 1/100 s.
const TICKS: f64 = 100.0;

/// The resources that a piece of work used.
#[derive(Clone, Copy, Debug, Default)]
pub struct Usage {
    /// Processor time of this process.
    pub client: Duration,
    /// Processor time of the server for this database; 0 if the server is on another machine.
    pub server: Duration,
    /// Bytes of WAL of the whole server.
    pub wal: u64,
}

/// Measures the resources used since its start.
pub(crate) struct Meter {
    server: Client,
    client: f64,
    backends: HashMap<i32, f64>,
    wal: i64,
}

impl Meter {
    /// Starts to measure. Backends that end before [`stop`](Meter::stop) do not count, so call it
    /// before the worker stops.
    pub(crate) fn start(bench: &Bench) -> Outcome<Meter> {
        let mut server = bench.client()?;
        let wal = wal(&mut server)?;
        let backends = backends(&mut server)?;
        Ok(Meter {
            server,
            client: own()?,
            backends,
            wal,
        })
    }

    /// Returns the resources used since the start.
    pub(crate) fn stop(mut self) -> Outcome<Usage> {
        let client = own()? - self.client;
        let since = |(process, seconds): (&i32, &f64)| {
            seconds - self.backends.get(process).copied().unwrap_or_default()
        };
        let server: f64 = backends(&mut self.server)?.iter().map(since).sum();
        Ok(Usage {
            client: Duration::from_secs_f64(client.max(0.0)),
            server: Duration::from_secs_f64(server.max(0.0)),
            wal: (wal(&mut self.server)? - self.wal).unsigned_abs(),
        })
    }
}

/// Returns the resources that some work uses.
pub fn metered(bench: &Bench, work: impl FnOnce() -> Outcome) -> Outcome<Usage> {
    let meter = Meter::start(bench)?;
    work()?;
    meter.stop()
}

fn wal(server: &mut Client) -> Outcome<i64> {
    let asked = "SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint";
    Ok(server.query_one(asked, &[])?.get(0))
}

fn own() -> Outcome<f64> {
    Ok(processor(i32::try_from(std::process::id())?).unwrap_or_default())
}

/// Returns the processor time of each backend of this database, in seconds.
fn backends(server: &mut Client) -> Outcome<HashMap<i32, f64>> {
    let asked = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() \
                 AND backend_type IN ('client backend', 'autovacuum worker')";
    let pids = server
        .query(asked, &[])?
        .into_iter()
        .map(|row| row.get::<_, i32>(0));
    Ok(pids
        .filter_map(|pid| Some((pid, processor(pid)?)))
        .collect())
}

/// Returns the user and system time of a process, or `None` if it has ended or has no /proc.
fn processor(process: i32) -> Option<f64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // The name is in parentheses; the state follows.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut ticks = fields.split_whitespace().skip(11);
    let user: f64 = ticks.next()?.parse().ok()?;
    let system: f64 = ticks.next()?.parse().ok()?;
    Some((user + system) / TICKS)
}
