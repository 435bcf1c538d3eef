//! All scenarios, in one program: `cargo xtask bench [NAME…]`.
//!
//! By hand: `DATABASE_URL=… cargo bench -p redrive-benches --bench scenarios -- NAME [--quick]`,
//! with an empty database of its own on a durable server.
#![allow(missing_docs, reason = "not a library")]

mod bulk;
mod drain;
mod fail_once;
mod idle;
mod latency;
mod notify;
mod single;
mod waste;

use std::process::ExitCode;

use redrive_benches::{Child, Scenario};

const SCENARIOS: &[Scenario] = &[
    bulk::SCENARIO,
    single::SCENARIO,
    drain::SCENARIO,
    fail_once::SCENARIO,
    latency::SCENARIO,
    idle::SCENARIO,
    notify::SCENARIO,
    waste::SCENARIO,
];

/// What scenarios have other processes of this program do.
const CHILDREN: &[Child] = &[idle::CHILD, waste::CHILD];

fn main() -> ExitCode {
    redrive_benches::main(SCENARIOS, CHILDREN)
}
