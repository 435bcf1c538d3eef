//! The pipeline: the steps of a job from its enqueue to its end.

mod carried;
mod expiry;
mod open_transaction;
mod payload_defaults;

mod enqueue;
mod unique;

mod backlog;
mod claim;
mod due;
mod lease;
mod segments;
mod suspect;
mod truncation;

mod death;
mod dependency;
mod foreign_letter;
mod retry;

mod breaker;
mod pause;
mod rate_limit;
mod reap;
mod refunds;
