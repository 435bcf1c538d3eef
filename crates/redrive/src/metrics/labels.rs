//! Defines the labels and histogram bounds of the catalogue.

use crate::job::death_cause::DeathCause;
use crate::metrics::metric::Label;
use crate::pipeline::buckets;

/// The label value that sums all values beyond a limit.
pub const OTHER: &str = "__other__";
/// Maximum number of queues published by name.
pub const QUEUE_SLOTS: usize = 100;
/// Maximum number of kinds published by name per queue.
///
/// The first kinds of a queue keep their names forever: counters would fall if the set changed.
pub const KIND_SLOTS: usize = 20;
/// Maximum number of error classes published by name per queue, chosen like the kinds.
pub const CLASS_SLOTS: usize = 20;
/// Maximum number of sources of captured failures published by name per queue, chosen like the kinds.
pub const SOURCE_SLOTS: usize = 20;

/// Defines a label whose values are not known in advance.
pub(super) const fn open(name: &'static str) -> Label {
    Label { name, values: &[] }
}

pub(super) const QUEUE: Label = open("queue");
pub(super) const KIND: Label = open("kind");
pub(super) const TABLE: Label = open("table");
pub(super) const SLOT: Label = open("slot");
pub(super) const DEATH_CAUSE: Label = Label {
    name: "cause",
    values: &DEATH_CAUSES,
};
const DEATH_CAUSES: [&str; DeathCause::ALL.len()] = {
    let mut names = [""; DeathCause::ALL.len()];
    let mut n = 0;
    while n < names.len() {
        names[n] = DeathCause::ALL[n].as_str();
        n += 1;
    }
    names
};
pub(super) const FAILURE_CAUSE: Label = Label {
    name: "cause",
    values: &[
        "error",
        "rejected",
        "panic",
        "timeout",
        "undecodable",
        "unhandled",
        "worker_lost",
        "outage",
    ],
};
pub(super) const JOB_STATE: Label = Label {
    name: "state",
    values: &["ready", "delayed", "leased"],
};
pub(super) const LETTER_STATE: Label = Label {
    name: "state",
    values: &["open", "redriving", "recovered", "discarded", "quarantined"],
};
pub(super) const GROUP_STATE: Label = Label {
    name: "state",
    values: &["open", "acknowledged", "resolved", "ignored"],
};
pub(super) const RUN_STATE: Label = Label {
    name: "state",
    values: &["unapproved", "running", "paused", "halted"],
};
pub(super) const RUN_OUTCOME: Label = Label {
    name: "outcome",
    values: &["recovered", "died_alike", "died_differently"],
};
pub(super) const WORKER_STATE: Label = Label {
    name: "state",
    values: &["busy", "waiting", "expired"],
};
pub(super) const BREAKER_STATE: Label = Label {
    name: "state",
    values: &["open", "half_open"],
};
pub(super) const PAUSE_END: Label = Label {
    name: "end",
    values: &["none", "planned"],
};
pub(super) const WAITS_FOR: Label = Label {
    name: "waits_for",
    values: &["operator", "retry"],
};
pub(super) const AGE: Label = Label {
    name: "age",
    values: &["1h", "1d", "7d"],
};
pub(super) const TICK_OUTCOME: Label = Label {
    name: "outcome",
    values: &["fired", "triggered", "overlapped", "missed"],
};
pub(super) const EXIT: Label = Label {
    name: "exit",
    values: &["redriven", "discarded"],
};
pub(super) const OUTCOME: Label = Label {
    name: "outcome",
    values: &["succeeded", "failed"],
};
pub(super) const PART: Label = Label {
    name: "part",
    values: &["heap", "index", "toast"],
};
pub(super) const HOLDER: Label = Label {
    name: "holder",
    values: &[
        "backend",
        "idle_in_transaction",
        "prepared",
        "slot",
        "standby_feedback",
    ],
};
pub(super) const FROZEN: Label = Label {
    name: "kind",
    values: &["transaction", "multixact"],
};
pub(super) const VACUUM: Label = Label {
    name: "kind",
    values: &["auto", "manual"],
};
pub(super) const COLLECTOR: Label = Label {
    name: "collector",
    values: &[
        "totals",
        "queues",
        "letters",
        "operations",
        "server",
        "tables",
        "bloat",
    ],
};
pub(super) const DOWN_CAUSE: Label = Label {
    name: "cause",
    values: &["unreachable", "schema", "privilege", "collector"],
};
pub(super) const CHORE: Label = Label {
    name: "chore",
    values: &[
        "look",
        "schedules",
        "compact",
        "reap",
        "fold_letters",
        "fold_runs",
        "fold_counters",
        "retention",
        "buckets",
        "runs",
        "ring",
        "unhandled",
        "age",
    ],
};
pub(super) const METHOD: Label = open("method");

pub(super) const WAIT_BOUNDS: &[f64] = buckets::SECONDS;
pub(super) const END_TO_END_BOUNDS: &[f64] = buckets::END_TO_END;
pub(super) const ATTEMPT_BOUNDS: &[f64] = buckets::ATTEMPTS;
pub(super) const DELAY_BOUNDS: &[f64] = buckets::RETRY_DELAY;
pub(super) const CHORE_BOUNDS: &[f64] = buckets::CHORE;
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
