//! Everything about redrive that needs a PostgreSQL server, in the order of the pipeline.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test reports by panicking"
)]

mod migrate;
mod statements;

mod enqueue;

mod claim;
mod lease;

mod retry;
mod transaction;
mod worker;

mod dead;

mod capture;
mod redrive;

mod crash;
mod faults;
mod reap;

mod stop;

mod live;
mod stats;
mod views;

mod ring;

mod bad_input;

mod cli;

mod tidy;
