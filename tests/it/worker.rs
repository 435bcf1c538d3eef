//! The worker: running handlers, waking up, shutting down.

mod ageing;
mod batch;
mod checkpoints;
mod chores;
mod cancelled;
mod deadline;
mod errors;
mod failing_flood;
mod follow_ups;
mod handlers;
mod idle;
mod keep_done;
mod log_lines;
mod observer;
mod sets;
mod slots;
mod spans;
mod spoiled_transaction;
mod stop;
mod stop_in_transaction;
mod stop_unreleased;
mod threads;
mod transaction;
mod undecodable;
mod unhandled;
pub(crate) mod wake;
