//! All scenarios in one program: `cargo xtask bench [NAME…]`.
//!
//! To run one by hand on an empty database:
//! `DATABASE_URL=… cargo bench -p redrive-benches --bench scenarios -- NAME [--quick]`.
#![allow(missing_docs, reason = "not a library")]

use std::process::ExitCode;

use redrive_benches::{Child, Scenario, WORKER_PROCESS};

macro_rules! scenarios {
    ($($name:ident)+) => {
        $(mod $name;)+

        const SCENARIOS: &[Scenario] = &[$(Scenario {
            name: stringify!($name),
            what: $name::WHAT,
            run: $name::run,
        }),+];
    };
}

scenarios! {
    bulk single drain fail_once latency idle notify cost priorities queues groups processes held steady backlog unhandled
    death redrive rivals
}

/// The child processes of scenarios.
const CHILDREN: &[Child] = &[WORKER_PROCESS, idle::CHILD];

fn main() -> ExitCode {
    redrive_benches::main(SCENARIOS, CHILDREN)
}
