//! The integration tests: everything that needs a PostgreSQL server.
//!
//! The folders follow the library: `db`, `pipeline`, `groups`, `dlq`, `inspect`, `worker` and `metrics` test
//! its features, `cli` and `exporter` the programs. `guarantees` tests what GUARANTEES.md promises
//! under faults, and `tidy` the rules of the repository.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test reports by panicking"
)]

mod worker_process;
mod commands;

mod db;
mod pipeline;

mod groups;

mod schedule;

mod dlq;

mod inspect;

mod worker;

mod metrics;

mod cli;

mod exporter;

mod testing;

mod guarantees;

mod tidy;
