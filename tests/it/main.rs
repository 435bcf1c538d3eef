//! Everything about redrive that needs a PostgreSQL server, in the order of the pipeline.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test reports by panicking"
)]

mod migrate;
mod statements;

mod constraints;
mod enqueue;
mod payload;

mod claim;
mod lease;

mod deadline;
mod retry;
mod transaction;
mod wake;
mod worker;

mod dead;

mod capture;
mod discard;
mod filter;
mod groups;
mod redrive;
mod story;

mod crash;
mod faults;
mod outage;
mod reap;
mod suspect;

mod pool;
mod stop;

mod audit;
mod live;
mod stats;
mod views;

mod ring;

mod bad_input;

mod cli;

mod tidy;
