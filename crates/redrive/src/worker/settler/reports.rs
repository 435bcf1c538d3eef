//! Writes breaker changes, after the verdicts that caused them.

use super::Settler;
use crate::job::printable::Printable;
use crate::pipeline::breaker::trip;
use crate::pipeline::probe::{ProbeVerdict, end_probe};
use crate::sync::Instant;
use crate::worker::breaker_state::BreakerReport;
use crate::worker::retry::{call_timeout, retry};

impl Settler<'_> {
    /// Writes the changes that the slots have reported.
    pub(super) fn write_reports(&mut self) {
        let (state, until, db_caller) = (self.state, self.until, &mut *self.db_caller);
        for report in self.kept.reports.drain(..) {
            match report {
                BreakerReport::BreakerTrip(news) => {
                    let (name, why) = (&news.name, Printable(&news.message));
                    log::warn!("{state} breaker={name}: opened ({}): {why}", news.cause);
                    let tripped = retry(state, until, || {
                        let news = news.clone();
                        db_caller.call("open a breaker", call_timeout(state), move |session| {
                            trip(session, &news)
                        })
                    });
                    match tripped {
                        Ok(gated) => state.breakers.confirm(gated, Instant::now()),
                        Err(error) => {
                            log::error!("{state} breaker={name}: could not be opened: {error:#}");
                            state.breakers.abandon(name);
                        }
                    }
                }
                BreakerReport::Probed(probe, ended) => {
                    let name = &probe.name;
                    match ended {
                        ProbeVerdict::Close => {
                            log::info!("{state} breaker={name}: closed after a successful probe");
                        }
                        ProbeVerdict::Reopen => {
                            log::info!("{state} breaker={name}: still open after a failed probe");
                        }
                        ProbeVerdict::Release => {}
                    }
                    let recorded = retry(state, until, || {
                        let probe = probe.clone();
                        db_caller.call("end a probe", call_timeout(state), move |session| {
                            end_probe(session, &probe, ended)
                        })
                    });
                    // The right to the probe expires, and another worker tries.
                    if let Err(error) = recorded {
                        log::warn!("{state} breaker={name}: probe not recorded: {error:#}");
                    }
                }
            }
            // After an error, too: the breaker may have been open for other kinds.
            state.note_stale_gates();
        }
    }
}
