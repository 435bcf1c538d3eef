//! The floor: what the threads of a worker stand on, in one place.
//!
//! Locks, atomics, channels, threads and the clock, and what of the driver is named by type. The
//! models of the worker (`tests/models`) are made of these very files with another floor under
//! them, on which a scheduler decides who goes next.

pub(crate) use std::sync::{Mutex, MutexGuard, atomic};
pub(crate) use std::thread;
pub(crate) use std::time::Instant;

pub(crate) use crossbeam_channel as channel;
pub(crate) use postgres::{Notification, Row, Transaction};
