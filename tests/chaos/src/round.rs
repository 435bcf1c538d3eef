//! A round: all processes at work under a schedule of faults, then a check of the records.

use std::time::{Duration, Instant};

use crate::Programs;
use crate::checker;
use crate::environment::{Environment, Setup};
use crate::fault::Fault;
use crate::processes::ProcessSpec;
use crate::role::{JobMix, gateway};
use crate::schedule::schedule;
use crate::verdict::Verdict;

const ENQUEUERS: u32 = 2;
const WORKERS: usize = 4;
const OPERATORS: usize = 2;
/// How long the drain may take after the last fault.
const DRAIN: Duration = Duration::from_mins(20);
/// The slots of a worker: enough that a fault meets many running handlers.
const SLOTS: usize = 32;

/// The parameters of a round.
#[derive(Clone, Debug)]
pub(crate) struct Round<'a> {
    pub(crate) programs: &'a Programs,
    pub(crate) seed: u64,
    pub(crate) length: Duration,
    pub(crate) faults: Vec<Fault>,
    /// Jobs per second.
    pub(crate) rate: u32,
    /// Whether a pooler in transaction mode is in between.
    pub(crate) is_pooled: bool,
}

impl Round<'_> {
    /// Runs it and prints what the checker found.
    pub(crate) fn run(&self) -> Verdict {
        let begin = Instant::now();
        let setup = Setup {
            is_pooled: self.is_pooled,
            has_small_disk: self.faults.contains(&Fault::DiskFull),
            seed: self.seed,
            ..Setup::default()
        };
        let mut env = Environment::start(self.programs, setup);
        env.set_group_policies();
        env.set_rate_limits(self.rate);
        gateway::shake(env.folder());
        for _ in 0..WORKERS {
            env.add(ProcessSpec {
                slots: SLOTS,
                serves_others: true,
                ..ProcessSpec::worker()
            });
        }
        for _ in 0..ENQUEUERS {
            env.add(ProcessSpec::enqueuer(self.rate / ENQUEUERS, JobMix::Mixed));
        }
        env.add(ProcessSpec::enqueuer(self.rate, JobMix::Grouped));
        for _ in 0..OPERATORS {
            env.add(ProcessSpec::operator());
        }
        let started = Instant::now();
        let steps = schedule(self.seed, self.length, &self.faults);
        for step in &steps {
            env.pass(step.at.saturating_sub(started.elapsed()));
            env.inject(step.fault, step.duration, step.target);
        }
        env.pass(self.length.saturating_sub(started.elapsed()));
        let finished = env.finish(DRAIN);
        let findings = checker::check(&finished.records);
        let play = format!("seed {}, {} faults", self.seed, steps.len());
        let verdict = Verdict::announce(&play, begin, finished, &findings);
        if verdict == Verdict::Broken {
            println!("Repeat with: {}", self.command());
        }
        verdict
    }

    /// Returns the command that repeats the round.
    fn command(&self) -> String {
        let (seed, minutes) = (self.seed, self.length.as_secs().div_ceil(60));
        let jobs = minutes * 60 * u64::from(self.rate);
        let faults: Vec<String> = self.faults.iter().map(ToString::to_string).collect();
        let faults = faults.join(",");
        let pooler = if self.is_pooled { " --pooler" } else { "" };
        format!(
            "cargo xtask chaos --seed {seed} --minutes {minutes} --jobs {jobs} --faults {faults}{pooler}"
        )
    }
}
