//! The labels and the bounds of the catalogue.

use crate::metrics::metric::Label;

/// What is over a limit of names is summed under this one.
pub const OTHER: &str = "__other__";
/// Queues that are published by name.
pub const QUEUE_SLOTS: usize = 100;
/// Kinds of a queue that are published by name: the first ones, for ever, because a top twenty
/// that changes would make counters fall.
pub const KIND_SLOTS: usize = 20;
/// Error classes of a queue that are published by name: the first ones, for ever.
pub const CLASS_SLOTS: usize = 20;

pub(super) const fn open(name: &'static str) -> Label {
    Label { name, values: &[] }
}

pub(super) const QUEUE: Label = open("queue");
pub(super) const KIND: Label = open("kind");
pub(super) const TABLE: Label = open("table");
pub(super) const SLOT: Label = open("slot");
pub(super) const REASON: Label = Label {
    name: "reason",
    values: &[
        "exhausted",
        "rejected",
        "undecodable",
        "unhandled",
        "timeout",
        "worker_lost",
        "expired",
        "captured",
        "manual",
    ],
};
pub(super) const CAUSE: Label = Label {
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
pub(super) const PLACE: Label = Label {
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
    values: &["running", "paused", "halted"],
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
pub(super) const AGE: Label = Label {
    name: "age",
    values: &["1h", "1d", "7d"],
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
pub(super) const METHOD: Label = open("method");

pub(super) const WAIT_BOUNDS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0,
];
pub(super) const END_TO_END_BOUNDS: &[f64] = &[
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 21600.0, 86400.0,
];
pub(super) const ATTEMPT_BOUNDS: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 20.0, 25.0];
pub(super) const DELAY_BOUNDS: &[f64] = &[
    1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 21600.0, 86400.0,
];
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
