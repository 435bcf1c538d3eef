//! Reports: what the settler writes about breakers, after the verdicts that tell of it.

use std::sync::Arc;

use crate::breaker::{Ended, end_probe, open_breakers, trip};
use crate::floor::Instant;
use crate::floor::channel::Sender;
use crate::lane::Lane;
use crate::worker::fetch::Wake;
use crate::worker::gates::Report;
use crate::worker::state::State;
use crate::worker::trying::{call_timeout, trying};

/// Writes what there is to say about breakers.
pub(crate) fn tell(
    state: &Arc<State>,
    lane: &mut Lane,
    reports: &mut Vec<Report>,
    wake: &Sender<Wake>,
    until: Instant,
) {
    for report in reports.drain(..) {
        match report {
            Report::Trip(news) => {
                log::warn!(
                    "breaker `{}` opens, {}: {}",
                    news.name,
                    news.cause,
                    news.message
                );
                let tripped = trying(state, until, || {
                    let news = news.clone();
                    lane.call("open a breaker", call_timeout(state), move |session| {
                        trip(session, &news)
                    })
                });
                match tripped {
                    Ok(gated) => state.gates.confirm(gated, Instant::now()),
                    Err(error) => {
                        log::error!("breaker `{}` could not be opened: {error}", news.name);
                        state.gates.abandon(&news.name);
                    }
                }
            }
            Report::Probed(probe, ended) => {
                match ended {
                    Ended::Close => log::info!("breaker `{}` closes", probe.name),
                    Ended::Reopen => log::info!("breaker `{}` stays open", probe.name),
                    Ended::GiveBack => {}
                }
                let gated = trying(state, until, || {
                    let probe = probe.clone();
                    lane.call("end a probe", call_timeout(state), move |session| {
                        end_probe(session, &probe, ended)?;
                        open_breakers(session)
                    })
                });
                match gated {
                    Ok(gated) => {
                        state.gates.learn(gated, Instant::now());
                        _ = wake.try_send(Wake::Work);
                    }
                    // Its right runs out, and somebody else tries.
                    Err(error) => {
                        log::warn!("the probe of breaker `{}` was in vain: {error}", probe.name);
                    }
                }
            }
        }
    }
}
