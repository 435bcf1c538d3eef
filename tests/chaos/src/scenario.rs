//! Scenarios: short runs, each of which creates the state that one kind of bug needs.
//!
//! A scenario waits for this state instead of hoping for it, and holds it with
//! [gates](crate::gate), locks or aged rows. Its result therefore does not depend on the speed of
//! the machine. Without a mutant the checker finds nothing.

mod conditions;
mod groups;
mod jobs;
mod leases;
mod letters;

use std::time::Duration;

use clap::ValueEnum;

use crate::Programs;
use crate::checker::{self, Findings};
use crate::environment::{Environment, Finished, Setup};
use crate::mutant::{Kind, Mutant};
use crate::processes::ProcessSpec;

/// How long a scenario waits for a state, and how long the drain may take. A drain that is stuck ends earlier, and a
/// busy machine needs minutes to run hundreds of suspects.
const PATIENT: (Duration, Duration) = (Duration::from_mins(2), Duration::from_mins(10));
/// The same with a mutant, which may prevent a state or leave jobs stuck.
const IMPATIENT: (Duration, Duration) = (Duration::from_secs(45), Duration::from_secs(25));

macro_rules! scenarios {
    ($($(#[$doc:meta])* $name:ident $play:path,)+) => {
        /// A scenario.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
        pub(crate) enum Scenario { $($(#[$doc])* $name,)+ }

        impl Scenario {
            fn play(self) -> fn(&mut Environment) {
                match self { $(Scenario::$name => $play,)+ }
            }
        }
    };
}

scenarios! {
    /// Jobs of all plans, a redrive and a cancellation, without faults
    Work jobs::work,
    /// Jobs fail, reject and abort in the middle of batches
    Batches jobs::batches,
    /// A job runs for longer than a lease, beside an idle worker
    LongRun leases::long_run,
    /// A worker is stopped until another one runs its job
    Pause leases::pause,
    /// A worker dies with a lease that is partly settled
    Kill leases::kill,
    /// A job aborts its process again and again
    Poison leases::poison,
    /// The server restarts while a worker is stopped
    Restart leases::restart,
    /// A job with a history and headers is released, reaped, cancelled and quarantined
    Carry leases::carry,
    /// A unique key is enqueued again while its job is live, and in each mode
    Unique jobs::unique,
    /// A dependency is down, under two workers
    Outage jobs::outage,
    /// Letters are pruned, archived, restored and redriven by a policy
    Keep letters::keep,
    /// The ring turns over full segments and open transactions
    Ring jobs::ring,
    /// Jobs of groups fail, die, and hold or divert those behind them
    Groups groups::groups,
    /// Fast jobs of groups follow each other in a lease; some fail, die or are slow.
    Followers groups::followers,
    /// Schedules tick, are paused over several ticks, and are triggered
    Scheduled jobs::scheduled,
    /// A mix of faults behind `PgBouncer` in transaction mode
    Pooler jobs::pooler,
}

impl Scenario {
    /// Runs it, with or without a mutant.
    pub(crate) fn run(self, programs: &Programs, mutant: Option<&Mutant>) -> (Finished, Findings) {
        let kind = mutant.map(|mutant| mutant.kind);
        let changes = mutant.map_or(&[][..], |mutant| mutant.patches);
        let (state_timeout, drain) = if mutant.is_some() { IMPATIENT } else { PATIENT };
        let mut setup = Setup {
            state_timeout,
            is_pooled: self == Scenario::Pooler,
            ..Setup::default()
        };
        if kind == Some(Kind::Statement) {
            setup.patches.extend(changes);
        }
        if self == Scenario::Restart {
            // The server must recover, and a worker start and check, well within a lease. On a busy machine the
            // recovery alone has taken more than 10 seconds.
            setup.lease = Duration::from_secs(40);
        }
        let mut env = Environment::start(programs, setup);
        if kind == Some(Kind::Function) {
            for patch in changes {
                env.patch_function(patch);
            }
        }
        self.play()(&mut env);
        let finished = env.finish(drain);
        let findings = checker::check(&finished.records);
        (finished, findings)
    }
}

/// Adds workers of the main queue.
fn add_workers(env: &mut Environment, count: usize) {
    for _ in 0..count {
        env.add(ProcessSpec::worker());
    }
}

/// Adds workers of all queues.
fn serve_all(env: &mut Environment, count: usize) {
    for _ in 0..count {
        env.add(ProcessSpec {
            serves_others: true,
            ..ProcessSpec::worker()
        });
    }
}
