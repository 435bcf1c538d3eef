//! The exporter on the demo's database, and with `--watch` a Prometheus.

use std::time::Duration;

use anyhow::Result;

use super::binaries::Session;
use super::screen::Screen;
use crate::child::ChildGuard;
use crate::interrupt::Interrupted;
use crate::prometheus::{self, Intervals, free_address, get, start_exporter};

/// The default addresses of the exporter and of Prometheus.
const EXPORTER: &str = "127.0.0.1:9898";
const PROMETHEUS: &str = "127.0.0.1:9090";
const INTERVALS: Intervals = Intervals {
    scrape: 2,
    evaluation: 2,
};
/// The series that the demo shows.
const SHOWN: [&str; 3] = [
    "redrive_up",
    "redrive_jobs_dead_lettered_total{",
    "redrive_dlq_letters{",
];

/// The running exporter. It stops when dropped.
#[derive(Debug)]
pub(super) struct Metrics {
    exporter: ChildGuard,
    address: String,
}

impl Metrics {
    /// Starts the exporter and shows three lines of its first page.
    pub(super) fn start(session: Session<'_>, screen: &mut Screen) -> Result<Metrics> {
        let address = free_address(EXPORTER)?;
        screen.heading("     ", "Metrics");
        screen.command(&format!("redrive-exporter --web.listen-address {address}"));
        let exporter = start_exporter(session.programs, session.url, &address, session.interrupt)?;
        let page = get(&address, "/metrics")?;
        for line in shown(&page, session.queue) {
            screen.print(line);
        }
        let others = series(&page).count().saturating_sub(SHOWN.len());
        screen.print(format!(
            "and {others} more series at http://{address}/metrics"
        ));
        Ok(Metrics { exporter, address })
    }

    /// Runs Prometheus until Ctrl-C.
    pub(super) fn watch(mut self, session: Session<'_>, screen: &mut Screen) -> Result<()> {
        let Session {
            folder, interrupt, ..
        } = session;
        let address = free_address(PROMETHEUS)?;
        let mut server = prometheus::start(&self.address, &address, INTERVALS, folder, interrupt)?;
        screen.heading("     ", "Prometheus");
        screen.print(format!(
            "http://{address}/graph?g0.expr=redrive_dlq_letters&g0.tab=0&g0.range_input=15m\n\
             http://{address}/alerts\nPress Ctrl-C to stop."
        ));
        loop {
            session.check_running(&mut server, "prometheus")?;
            session.check_running(&mut self.exporter, "exporter")?;
            match interrupt.pause(Duration::from_secs(1)) {
                Err(error) if error.is::<Interrupted>() => return Ok(()),
                result => result?,
            }
        }
    }
}

/// The shown series of a queue, preferably those that are not zero.
fn shown<'a>(page: &'a str, queue: &str) -> impl Iterator<Item = &'a str> {
    let queue = format!("queue=\"{queue}\"");
    SHOWN.iter().filter_map(move |name| {
        let lines = series(page).filter(|line| line.starts_with(name));
        lines
            .filter(|line| !name.ends_with('{') || line.contains(&queue))
            .min_by_key(|line| line.ends_with(" 0"))
    })
}

fn series(page: &str) -> impl Iterator<Item = &str> {
    page.lines().filter(|line| !line.starts_with('#'))
}
