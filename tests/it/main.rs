//! Everything about redrive that needs a PostgreSQL server, in the order of the pipeline.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test reports by panicking"
)]

mod enqueue;
mod worker;
mod retry;
mod dead;
mod transaction;
mod lease;
mod redrive;
mod capture;
mod crash;
mod reap;
mod stop;
mod faults;
mod migrate;
mod ring;
mod views;
mod statements;
mod claim;
mod live;
mod stats;
mod bad_input;
mod tidy;
mod cli;
