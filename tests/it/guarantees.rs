//! The guarantees: GUARANTEES.md itself, and what it promises under faults and bad input.

mod page;

mod arbitrary_input;
mod bad_input;
mod connection_loss;
mod crash;
mod database_outage;
mod deadlocks;
mod durations;
mod leaks;
mod recovery;
pub(crate) mod secrets;
