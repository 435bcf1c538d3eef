//! Writes breaker changes, after the verdicts that caused them.

use super::Settler;
use crate::error::Error;
use crate::job::error_report::one_line;
use crate::pipeline::breaker::trip;
use crate::pipeline::probe::{ProbeVerdict, end_probe};
use crate::worker::breaker_state::BreakerReport;
use crate::worker::retry::retry;

impl Settler<'_> {
    /// Writes the changes that the slots have reported.
    pub(super) fn write_reports(&mut self) {
        let state = self.state;
        for report in std::mem::take(&mut self.reports) {
            let name = report.name();
            match &report {
                BreakerReport::BreakerTrip(news) => {
                    let why = one_line(&news.message);
                    log::warn!("{state} breaker={name}: opened ({}): {why}", news.cause);
                }
                BreakerReport::Probed(_, ProbeVerdict::Close) => {
                    log::info!("{state} breaker={name}: closed after a successful probe");
                }
                BreakerReport::Probed(_, ProbeVerdict::Reopen) => {
                    log::info!("{state} breaker={name}: still open after a failed probe");
                }
                BreakerReport::Probed(_, ProbeVerdict::Release) => {}
            }
            let written = retry(state, self.until, Error::is_unavailable, || {
                let change = match &report {
                    BreakerReport::BreakerTrip(news) => trip(news),
                    BreakerReport::Probed(probe, ended) => end_probe(probe, *ended),
                };
                self.call("change a breaker", change)
            });
            // The right to a probe expires, and another worker tries.
            if let Err(error) = written {
                log::error!("{state} breaker={name}: its change is not recorded: {error:#}");
            }
            state.breakers.written(name);
            // After an error, too: the breaker may have been open for other kinds.
            state.note_stale_gates();
        }
    }
}
