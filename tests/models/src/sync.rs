//! Locks, atomics, channels, threads and time, controlled by a scheduler that picks the next thread.
//!
//! All atomics are sequentially consistent. The models find no bug that needs a weaker ordering.

pub(crate) mod channel;
pub(crate) mod clock;
pub(crate) mod handout;
pub(crate) mod thread;

use std::sync::PoisonError;

pub(crate) use clock::Instant;
pub(crate) use shuttle::sync::{Mutex, MutexGuard, atomic};

pub(crate) use crate::rows::Row;
pub(crate) use crate::session::{Notification, Transaction};

/// The models have no async runtime.
pub(crate) fn in_async_runtime() -> bool {
    false
}

/// Locks a mutex whose content no panic can leave inconsistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
