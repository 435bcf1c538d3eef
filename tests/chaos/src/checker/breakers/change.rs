//! The changes of a breaker that an operation makes. Pure.

use crate::db_trace::BreakerRow;
use crate::role::gateway::BREAKER_THRESHOLD;

/// The wait before the first probe, and the longest one, in milliseconds.
const MIN_WAIT: i64 = 1000;
const MAX_WAIT: i64 = 60_000;

/// A change of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum BreakerChange {
    /// A worker opened it after outages in a row.
    Tripped,
    /// A worker added its outages to an open one.
    Joined,
    OpenedByHand,
    ClosedByHand,
    /// A worker got the right to probe.
    Granted,
    /// A probe closed it.
    Closed,
    /// A probe met an outage.
    Reopened,
    /// A probe had no job.
    GivenBack,
}

impl BreakerChange {
    /// Returns what happened. `None`: no operation does this.
    pub(super) fn of(before: Option<&BreakerRow>, row: &BreakerRow) -> Option<BreakerChange> {
        let was_open = before.filter(|before| *before.state != *"closed");
        let probes = before.map_or(0, |before| before.probes);
        let openings = before.map_or(0, |before| before.openings);
        let opened = row.openings - openings;
        let is_same_probe = row.probes == probes;
        let (state, cause) = (&*row.state, &*row.cause);
        match (was_open, state) {
            (None, "open") if opened == 1 && is_same_probe && row.prober.is_none() => match cause {
                "operator" if row.outages == 0 => Some(BreakerChange::OpenedByHand),
                "outage"
                    if row.outages >= i64::from(BREAKER_THRESHOLD) && row.delay_ms == MIN_WAIT =>
                {
                    Some(BreakerChange::Tripped)
                }
                _ => None,
            },
            (Some(_), _) if opened != 0 => None,
            (Some(before), "half_open") if row.probes == probes + 1 => {
                let is_due = before.probe_at.is_some_and(|due| due <= row.at);
                let is_granted = is_due && row.prober.is_some() && row.probe_at > before.probe_at;
                (is_granted && is_unchanged(before, row)).then_some(BreakerChange::Granted)
            }
            (Some(before), _)
                if is_same_probe && row.state == before.state && row.outages > before.outages =>
            {
                let keeps = row.prober == before.prober
                    && row.probe_at == before.probe_at
                    && row.delay_ms == before.delay_ms
                    && before.kinds.iter().all(|kind| row.kinds.contains(kind));
                keeps.then_some(BreakerChange::Joined)
            }
            (Some(before), "closed")
                if is_same_probe && row.prober.is_none() && is_unchanged(before, row) =>
            {
                // A worker that closes it has probed.
                match (&*before.state, row.process.starts_with("worker")) {
                    ("half_open", true) => Some(BreakerChange::Closed),
                    (_, false) => Some(BreakerChange::ClosedByHand),
                    _ => None,
                }
            }
            (Some(before), "open") if is_same_probe && row.prober.is_none() => {
                let failed = before.outages + 1 == row.outages
                    && row.delay_ms == (2 * before.delay_ms).min(MAX_WAIT)
                    && row.kinds == before.kinds;
                match (&*before.state, row.process.starts_with("worker")) {
                    (_, false) => (cause == "operator").then_some(BreakerChange::OpenedByHand),
                    ("half_open", true) if failed => Some(BreakerChange::Reopened),
                    ("half_open", true) if is_unchanged(before, row) => {
                        Some(BreakerChange::GivenBack)
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// Whether a change kept the outages, the kinds, the cause and the delay.
fn is_unchanged(before: &BreakerRow, row: &BreakerRow) -> bool {
    (row.outages, row.delay_ms, &row.cause, &row.kinds)
        == (
            before.outages,
            before.delay_ms,
            &before.cause,
            &before.kinds,
        )
}
