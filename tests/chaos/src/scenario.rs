//! Scenarios: short runs, each of which creates the state that one kind of bug needs.
//!
//! A scenario waits for this state instead of hoping for it, and holds it with
//! [gates](crate::gate), locks or aged rows. Its result therefore does not depend on the speed of
//! the machine. Without a mutant the checker finds nothing.

mod batches;
mod carrying;
mod conditions;
mod enqueueing;
mod everything;
mod groups;
mod keeping;
mod leases;
mod letters;
mod live;
mod pacing;
mod unique;

use std::time::Duration;

use clap::ValueEnum;
use redrive::Pooler;

use crate::Programs;
use crate::checker::{self, Findings};
use crate::environment::{Environment, Finished, LEASE, Setup};
use crate::mutant::{Mutant, Mutation, SPEED_UP};
use crate::processes::ProcessSpec;
use crate::proxy::Patch;
use crate::role::{ClientFlaw, JobMix};
use crate::server::Disk;

/// How long a scenario waits for a state, and how long the drain may take. A drain without progress ends earlier, and a
/// busy machine needs minutes to run hundreds of suspects.
const PATIENT: Timeouts = Timeouts {
    state: Duration::from_mins(2),
    drain: Duration::from_mins(10),
};
/// The same with a mutant, which may prevent a state or leave jobs stuck.
const IMPATIENT: Timeouts = Timeouts {
    state: Duration::from_secs(45),
    drain: Duration::from_secs(25),
};

struct Timeouts {
    state: Duration,
    drain: Duration,
}

/// A scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Scenario {
    /// Jobs of all plans, a redrive and a cancellation, without faults
    Work,
    /// Jobs fail, reject and abort in the middle of batches
    Batches,
    /// A job runs for longer than a lease, beside an idle worker
    LongRun,
    /// A worker is stopped until another one runs its job
    Pause,
    /// A worker dies with a lease that is partly settled
    Kill,
    /// A job aborts its process again and again
    Poison,
    /// The server restarts while a worker is stopped
    Restart,
    /// A worker is terminated 13 times during the same attempt
    Release,
    /// A job with a history and headers is released, reaped, cancelled and quarantined
    Carry,
    /// A unique key is enqueued again while its job is live
    Unique,
    /// Keys are free at a start, replace a waiting job, and have windows
    UniqueModes,
    /// Two operators redrive the same letter
    Operators,
    /// A run sends only the letters that pass a validation
    Validated,
    /// Old letters are pruned, some of them open
    Prune,
    /// A dependency is down, under two workers
    Outage,
    /// Jobs wait in a paused queue for longer than they may
    Wait,
    /// Waiting jobs of two queues are changed in bulk
    Live,
    /// Letters with secrets are archived, restored, deleted and redriven by a policy
    Keep,
    /// The ring turns over full segments and open transactions
    Ring,
    /// Jobs of groups fail, die, and hold or divert those behind them
    Groups,
    /// A group with many jobs is beside one with a single job
    FairGroups,
    /// The first job of a group is locked
    LockedHead,
    /// Fast jobs of groups follow each other in a lease; some fail, die or are slow.
    Followers,
    /// A queue is paused while a worker serves it
    Paused,
    /// A queue with a rate limit has more jobs than may start
    Rated,
    /// Each group of a queue has a rate limit, and one of them has more jobs than may start
    GroupRated,
    /// Schedules tick, are paused over several ticks, and are triggered
    Scheduled,
    /// Answers to an enqueuer are lost
    LostAnswers,
    /// A mix of faults behind `PgBouncer` in transaction mode
    Pooler,
}

/// The result of a scenario.
#[derive(Debug)]
pub(crate) struct ScenarioRun {
    pub(crate) finished: Finished,
    pub(crate) findings: Findings,
}

impl Scenario {
    /// Runs it, with or without a mutant.
    pub(crate) fn run(self, programs: &Programs, mutant: Option<&Mutant>) -> ScenarioRun {
        let mut patches: Vec<Patch> = SPEED_UP.to_vec();
        let mut flaw = ClientFlaw::None;
        let mut functions = Vec::new();
        match mutant.map(|mutant| mutant.mutation) {
            Some(Mutation::Statements(changed)) => patches.extend(changed),
            Some(Mutation::Functions(changed)) => functions.extend(changed),
            Some(Mutation::Client(changed)) => flaw = changed,
            None => {}
        }
        let timeouts = if mutant.is_some() { IMPATIENT } else { PATIENT };
        let mut env = Environment::start(&Setup {
            programs,
            pooler: self.pooler(),
            disk: Disk::Plain,
            seed: 1,
            lease: self.lease(),
            patches: &patches,
            state_timeout: timeouts.state,
        });
        if self == Scenario::Operators {
            env.patch_function(&letters::BARRIER);
        }
        for patch in functions {
            env.patch_function(patch);
        }
        self.execute(&mut env, flaw);
        let finished = env.finish(timeouts.drain);
        ScenarioRun {
            findings: checker::check(&finished.records),
            finished,
        }
    }

    fn pooler(self) -> Pooler {
        match self {
            Scenario::Pooler => Pooler::Transaction,
            _ => Pooler::Session,
        }
    }

    fn lease(self) -> Duration {
        match self {
            // The server must recover, and a worker start and check, well within a lease. On a busy machine the recovery
            // alone has taken more than 10 seconds.
            Scenario::Restart => Duration::from_secs(40),
            _ => LEASE,
        }
    }

    fn execute(self, env: &mut Environment, flaw: ClientFlaw) {
        match self {
            Scenario::Work => everything::work(env),
            Scenario::Batches => batches::batches(env),
            Scenario::LongRun => leases::long_run(env),
            Scenario::Pause => leases::pause(env),
            Scenario::Kill => leases::kill(env),
            Scenario::Poison => leases::poison(env),
            Scenario::Restart => leases::restart(env),
            Scenario::Release => leases::release(env),
            Scenario::Carry => carrying::carry(env),
            Scenario::Unique => enqueueing::unique(env),
            Scenario::UniqueModes => unique::modes(env),
            Scenario::Operators => letters::operators(env),
            Scenario::Validated => letters::validated(env),
            Scenario::Prune => letters::prune(env),
            Scenario::Outage => keeping::outage(env),
            Scenario::Wait => keeping::wait(env),
            Scenario::Live => live::live(env),
            Scenario::Keep => keeping::keep(env),
            Scenario::Ring => enqueueing::ring(env, flaw),
            Scenario::Groups => groups::groups(env),
            Scenario::FairGroups => groups::fair(env),
            Scenario::LockedHead => groups::locked_head(env),
            Scenario::Followers => groups::followers(env),
            Scenario::Paused => pacing::paused(env),
            Scenario::Rated => pacing::rated(env),
            Scenario::GroupRated => pacing::group_rated(env),
            Scenario::Scheduled => pacing::scheduled(env),
            Scenario::LostAnswers => enqueueing::lost_answers(env, flaw),
            Scenario::Pooler => everything::pooler(env),
        }
    }
}

fn add_workers(env: &mut Environment, count: usize) {
    for _ in 0..count {
        env.add(ProcessSpec::worker());
    }
}

fn enqueuer(rate: u32, mix: JobMix, flaw: ClientFlaw) -> ProcessSpec {
    ProcessSpec {
        flaw,
        ..ProcessSpec::enqueuer(rate, mix)
    }
}
