//! The history of one job: where it was, when, and how it left.

use std::sync::Arc;

use uuid::Uuid;

use crate::db_trace::Place;

/// The history of a job.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobHistory {
    pub(crate) job: i64,
    pub(crate) queue: Arc<str>,
    pub(crate) kind: Arc<str>,
    pub(crate) group: Option<Arc<str>>,
    /// The key in its payload.
    pub(crate) key: Option<i64>,
    pub(crate) enqueuer: Option<Arc<str>>,
    pub(crate) leases: Vec<LeaseSpan>,
    /// When it held a unique key.
    pub(crate) keys: Vec<KeySpan>,
    /// When it was redriven, and by which process.
    pub(crate) redriven: Vec<(i64, Arc<str>)>,
    /// Where it is at the end, if it is live.
    pub(crate) end: Option<Place>,
    /// The generations that succeeded, with the transaction.
    pub(crate) done: Vec<(i32, i64)>,
    /// The transaction that stored it.
    pub(crate) stored_by: i64,
    /// How many follow-ups a success has.
    pub(crate) follow_ups: i64,
    /// How clients changed it or its letter, when, and which process did.
    pub(crate) by_clients: Vec<(ClientChange, i64, Arc<str>)>,
    /// When its enqueue began, and when it was stored.
    pub(crate) enqueued: (i64, i64),
    /// When it died because an operator cancelled it.
    pub(crate) cancelled: Option<i64>,
}

/// A change that only a client makes, and only if it asked for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ClientChange {
    /// A waiting job got another payload, priority or time.
    Altered,
    /// A waiting job was cancelled.
    Cancelled,
    /// A waiting job vanished.
    Erased,
    /// A letter got another payload.
    Edited,
    /// A letter recovered without a job.
    Delivered,
    Discarded,
    Reopened,
    /// A closed letter was deleted.
    Pruned,
    /// Another letter was deleted.
    Purged,
}

/// The time during which a job held a unique key.
#[derive(Clone, Debug)]
pub(crate) struct KeySpan {
    pub(crate) key: Arc<str>,
    /// The number of the row change, and its time.
    pub(crate) from: (i64, i64),
    pub(crate) to: (i64, i64),
    /// Until when other transactions may have seen it live.
    pub(crate) visible_to: i64,
}

/// The time during which a job was leased.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeaseSpan {
    pub(crate) process: Arc<str>,
    pub(crate) worker: Option<Uuid>,
    /// When its claim committed.
    pub(crate) committed: i64,
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) attempt: i32,
    pub(crate) generation: i32,
    pub(crate) refunds: i32,
    pub(crate) crashes: i32,
    pub(crate) end: LeaseEnd,
    /// The checkpoint with which it was claimed.
    pub(crate) checkpoint: Option<u64>,
    /// The checkpoints that were stored, with their times.
    pub(crate) stored: Vec<(i64, Option<u64>)>,
}

/// How a job left a lease.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum LeaseEnd {
    /// It did not.
    #[default]
    Held,
    Done,
    /// It returned, and its attempt counts.
    Charged {
        refunds: i32,
    },
    /// It returned, and its attempt was refunded.
    Refunded,
    /// Its worker dead-lettered it. The attempt of a cancelled job that never ran is refunded.
    Dead {
        cause: Arc<str>,
        is_refunded: bool,
    },
    /// Its worker was lost, and it returned.
    Reaped,
    /// Its worker was lost, and it became a letter.
    ReapedDead,
}
