//! All scenarios in one program: `cargo xtask bench [NAME…]`.
//!
//! To run one by hand on an empty database:
//! `DATABASE_URL=… cargo bench -p redrive-benches --bench scenarios -- NAME [--quick]`.
#![allow(missing_docs, reason = "not a library")]

mod backlog;
mod bulk;
mod cost;
mod counters;
mod death;
mod drain;
mod fail_once;
mod flood;
mod groups;
mod held;
mod held_statements;
mod idle;
mod latency;
mod letters;
mod million;
mod notify;
mod priorities;
mod processes;
mod queues;
mod rates;
mod redrive;
mod rivals;
mod scrape;
mod single;
mod steady;
mod tenants;
mod transactions;
mod unhandled;
mod free_slots;

use std::process::ExitCode;

use redrive_benches::{Child, Scenario, WORKER_PROCESS};

const SCENARIOS: &[Scenario] = &[
    bulk::SCENARIO,
    single::SCENARIO,
    drain::SCENARIO,
    fail_once::SCENARIO,
    transactions::SCENARIO,
    latency::SCENARIO,
    idle::SCENARIO,
    notify::SCENARIO,
    free_slots::SCENARIO,
    cost::SCENARIO,
    counters::SCENARIO,
    priorities::SCENARIO,
    queues::SCENARIO,
    groups::SCENARIO,
    tenants::SCENARIO,
    rates::SCENARIO,
    processes::SCENARIO,
    held::SCENARIO,
    held_statements::SCENARIO,
    steady::SCENARIO,
    backlog::SCENARIO,
    unhandled::SCENARIO,
    death::SCENARIO,
    redrive::SCENARIO,
    letters::SCENARIO,
    million::SCENARIO,
    scrape::SCENARIO,
    flood::SCENARIO,
    rivals::SCENARIO,
];

/// The child processes of scenarios.
const CHILDREN: &[Child] = &[WORKER_PROCESS, idle::CHILD, free_slots::CHILD];

fn main() -> ExitCode {
    redrive_benches::main(SCENARIOS, CHILDREN)
}
