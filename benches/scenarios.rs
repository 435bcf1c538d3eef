//! All scenarios, in one program: `cargo xtask bench [NAME…]`.
//!
//! By hand: `DATABASE_URL=… cargo bench -p redrive-benches --bench scenarios -- NAME [--quick]`,
//! with an empty database of its own on a durable server.
#![allow(missing_docs, reason = "not a library")]

mod backlog;
mod bulk;
mod cost;
mod counters;
mod death;
mod drain;
mod fail_once;
mod held;
mod idle;
mod latency;
mod letters;
mod million;
mod notify;
mod priorities;
mod processes;
mod queues;
mod redrive;
mod scrape;
mod single;
mod steady;
mod transactions;
mod waste;

use std::process::ExitCode;

use redrive_benches::{Child, RACER, Scenario};

const SCENARIOS: &[Scenario] = &[
    bulk::SCENARIO,
    single::SCENARIO,
    drain::SCENARIO,
    fail_once::SCENARIO,
    transactions::SCENARIO,
    latency::SCENARIO,
    idle::SCENARIO,
    notify::SCENARIO,
    waste::SCENARIO,
    cost::SCENARIO,
    counters::SCENARIO,
    priorities::SCENARIO,
    queues::SCENARIO,
    processes::SCENARIO,
    held::SCENARIO,
    steady::SCENARIO,
    backlog::SCENARIO,
    death::SCENARIO,
    redrive::SCENARIO,
    letters::SCENARIO,
    million::SCENARIO,
    scrape::SCENARIO,
];

/// What scenarios have other processes of this program do.
const CHILDREN: &[Child] = &[RACER, idle::CHILD, waste::CHILD];

fn main() -> ExitCode {
    redrive_benches::main(SCENARIOS, CHILDREN)
}
