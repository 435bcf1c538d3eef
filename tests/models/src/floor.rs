//! The floor of the models: locks, atomics, channels, threads and the clock, on which a scheduler
//! decides who goes next.
//!
//! Atomics are as if all of them were sequentially consistent: what another order of memory would
//! let through is not looked for.

pub(crate) mod channel;
pub(crate) mod clock;
pub(crate) mod thread;

pub(crate) use clock::Instant;
pub(crate) use shuttle::sync::{Mutex, MutexGuard, atomic};

pub(crate) use crate::rows::Row;
pub(crate) use crate::session::{Notification, Transaction};
