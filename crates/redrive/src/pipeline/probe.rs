//! Probes: one job at a time runs while a breaker is open, to learn whether its dependency works.
//!
//! A worker claims a job as always and then asks for the right to probe it, so a search without a job holds up no other
//! prober. Without the right, the job returns.

use std::time::Duration;

use crate::db::ask::{Call, all, rows};
use crate::db::sql;
use crate::job::words::words;
use crate::pipeline::breaker::{MAX_PROBE_WAIT, MIN_PROBE_WAIT};

/// The right to run one job as a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Probe {
    pub(crate) name: String,
    /// The fencing number; later probes have higher ones.
    pub(crate) number: i64,
}

/// Returns the call that takes the right to run a probe for `lasting`. It returns the number of the probe; none: it is not
/// due, or another process has the right.
pub(crate) fn take_probe(name: &str, lasting: Duration) -> Call<Vec<i64>> {
    let doing = format!("take the probe of breaker `{name}`");
    all(&doing, &sql::TAKE_PROBE, &[&name, &lasting])
}

words! {
    /// The effect of a probe on its breaker. The words are in `end_probe.sql`.
    pub(crate) enum ProbeVerdict is "end of a probe" {
        Close = "close",
        Reopen = "reopen",
        Release = "give_back",
    }
}

/// Returns the call that ends a probe. It changes nothing if the right was lost.
pub(crate) fn end_probe(probe: &Probe, ended: ProbeVerdict) -> Call {
    rows(
        &format!("end the probe of breaker `{}`", probe.name),
        &sql::END_PROBE,
        &[
            &probe.name,
            &probe.number,
            &ended,
            &MAX_PROBE_WAIT,
            &MIN_PROBE_WAIT,
        ],
    )
}
