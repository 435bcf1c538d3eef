//! Holds what the threads of a worker share, however many queues it serves.

use std::sync::{Arc, OnceLock};

use crate::db::pool_share::Suspects;
use crate::sync::atomic::{AtomicBool, AtomicI16, AtomicI64};
use crate::sync::{Instant, Mutex};
use crate::worker::latch::{Bell, Latch};
use crate::worker::outage_log::OutageLog;

/// What the queues of a worker share.
#[derive(Default)]
pub(crate) struct Shared {
    /// Set when the worker must claim and start nothing more.
    pub(crate) stopping: Arc<Latch>,
    /// When a stopping worker must have ended. Its calls take no longer.
    pub(crate) end_by: OnceLock<Instant>,
    /// The queue that failed first, and why.
    pub(crate) failure: OnceLock<(String, String)>,
    /// Whether the database did not answer a claim during the stop.
    pub(crate) claim_unanswered: AtomicBool,
    pub(crate) outage_log: OutageLog,
    /// Those of all workers that share the pool.
    pub(crate) suspects: Arc<Suspects>,
    pub(crate) ring: Ring,
    /// No reaping before this time: after an outage the other workers may renew first.
    pub(crate) reap_from: Mutex<Option<Instant>>,
    /// Tells a stop that a slot has ended or is overdue.
    pub(crate) left: Bell,
    /// Wakes the fetcher when there may be room for jobs.
    pub(crate) room: Bell,
    /// Wakes the fetcher when there may be jobs.
    pub(crate) jobs: Bell,
    /// Wakes the chores when a schedule has changed.
    pub(crate) schedules: Bell,
    /// Whether the renewer must read the breakers, pauses and limits, because what is known of them is out of date. Only
    /// that thread does: of two that read, the one that read first could be the last to record what it knows, and a pause
    /// would be forgotten.
    pub(crate) stale_gates: AtomicBool,
}

/// The ring of segments, as of its last check.
#[derive(Debug, Default)]
pub(crate) struct Ring {
    /// The segment of new jobs.
    pub(crate) segment: AtomicI16,
    /// The size of the ready jobs of all queues, with dead rows.
    pub(crate) ready_bytes: AtomicI64,
}

impl Shared {
    /// Returns what the queues of a new worker share.
    pub(crate) fn new(suspects: &Arc<Suspects>) -> Shared {
        let shared = Shared {
            suspects: Arc::clone(suspects),
            ..Shared::default()
        };
        suspects.wake(shared.jobs.sender.clone());
        shared
    }
}
