//! Defines the labels and histogram bounds of the catalogue.

use crate::dlq::{GroupState, LetterState};
use crate::job::death_cause::DeathCause;
use crate::metrics::metric::{Distrust, Label, Source};
use crate::pipeline::outcome::FailureCause;
use crate::worker::chore::Chore;

/// The label value that sums all values beyond a limit.
pub const OTHER: &str = "__other__";

/// Defines a label whose values are not known in advance.
pub(super) const fn open(name: &'static str) -> Label {
    Label { name, values: &[] }
}

/// Defines a label with all its values.
pub(super) const fn known(name: &'static str, values: &'static [&'static str]) -> Label {
    Label { name, values }
}

pub(super) const QUEUE: Label = open("queue");
pub(super) const KIND: Label = open("kind");
pub(super) const TABLE: Label = open("table");
pub(super) const SLOT: Label = open("slot");
pub(super) const DEATH_CAUSE: Label = known("cause", &DeathCause::WORDS);
pub(super) const FAILURE_CAUSE: Label = known("cause", &FailureCause::WORDS);
pub(super) const JOB_STATE: Label = known("state", &["ready", "delayed", "leased"]);
pub(super) const LETTER_STATE: Label = known("state", &LetterState::WORDS);
pub(super) const GROUP_STATE: Label = known("state", &GroupState::WORDS);
pub(super) const RUN_STATE: Label = known("state", &["unapproved", "running", "paused", "halted"]);
pub(super) const RUN_OUTCOME: Label =
    known("outcome", &["recovered", "died_alike", "died_differently"]);
pub(super) const WORKER_STATE: Label = known("state", &["busy", "waiting", "expired"]);
pub(super) const BREAKER_STATE: Label = known("state", &["open", "half_open"]);
pub(super) const PAUSE_END: Label = known("end", &["none", "planned"]);
pub(super) const WAITS_FOR: Label = known("waits_for", &["operator", "retry"]);
pub(super) const TICK_OUTCOME: Label =
    known("outcome", &["fired", "triggered", "overlapped", "missed"]);
pub(super) const EXIT: Label = known("exit", &["redriven", "discarded"]);
pub(super) const OUTCOME: Label = known("outcome", &["succeeded", "failed"]);
pub(super) const PART: Label = known("part", &["heap", "index", "toast"]);
pub(super) const HOLDER: Label = known(
    "holder",
    &[
        "backend",
        "idle_in_transaction",
        "prepared",
        "slot",
        "standby_feedback",
    ],
);
/// Slots and standbys have no timestamp.
pub(super) const TIMED_HOLDER: Label =
    known("holder", &["backend", "idle_in_transaction", "prepared"]);
pub(super) const FROZEN: Label = known("kind", &["transaction", "multixact"]);
pub(super) const COLLECTOR: Label = known("collector", {
    let [database @ .., _reader] = &Source::WORDS;
    database
});
pub(super) const DOWN_CAUSE: Label = known("cause", &Distrust::WORDS);
pub(super) const CHORE: Label = known("chore", &Chore::WORDS);

pub(super) const RESIDENCE_BOUNDS: &[f64] = &[
    60.0,
    600.0,
    3600.0,
    21600.0,
    86400.0,
    259_200.0,
    604_800.0,
    1_209_600.0,
    2_592_000.0,
];
