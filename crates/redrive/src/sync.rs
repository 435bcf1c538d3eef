//! Synchronization primitives, threads and the clock, in one place.
//!
//! The models in `tests/models` compile the worker's files with another version of this module,
//! whose scheduler decides which thread runs next.

pub(crate) mod handout;

use std::sync::PoisonError;

pub(crate) use std::sync::{Mutex, MutexGuard, atomic};
pub(crate) use std::thread;
pub(crate) use std::time::Instant;

pub(crate) use crossbeam_channel as channel;
pub(crate) use postgres::{Notification, Row, Transaction};

/// Whether the calling thread belongs to an async runtime, inside which the driver panics.
pub(crate) fn in_async_runtime() -> bool {
    tokio::runtime::Handle::try_current().is_ok()
}

/// Locks a mutex whose content no panic can leave inconsistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
