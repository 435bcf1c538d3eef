//! Everything about redrive that needs a PostgreSQL server, in the order of the pipeline.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test reports by panicking"
)]

mod migrate;
mod plans;
mod statements;

mod constraints;
mod enqueue;
mod payload;
mod unique;

mod claim;
mod lease;

mod bounded;
mod breaker;
mod deadline;
mod dependency;
mod idle;
mod inputs;
mod retry;
mod transaction;
mod wake;
mod worker;

mod dead;

mod groups;
mod story;

mod filter;

mod capture;
mod discard;
mod edit;
mod export;
mod redrive;
mod runs;
mod runs_killed;
mod runs_stretches;
mod sink;
mod validate;

mod policy;
mod redaction;
mod retention;

mod crash;
mod deadlocks;
mod durability;
mod faults;
mod leak;
mod outage;
mod reap;
mod recovery;
mod restore;
mod suspect;

mod pool;
mod pooler;
mod stop;
mod threads;
mod tls;

mod plain;
mod roles;
mod secrets;
mod terminal;

mod audit;
mod counters;
mod live;
mod stats;
mod views;

mod metrics;
mod metrics_plans;
mod metrics_role;
mod metrics_sources;
mod metrics_table;

mod ring;

mod consistency;
mod runbooks;

mod bad_input;

mod guarantees;

mod cli;
mod kit;

mod exporter;
mod exporter_attacked;
mod exporter_deployed;
mod exporter_outage;

mod tidy;
