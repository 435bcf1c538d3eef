//! A round: all processes at work under a schedule of faults, then a check of the records.

use std::time::{Duration, Instant};

use redrive::Pooler;

use crate::Programs;
use crate::checker::{self, Path};
use crate::environment::{Environment, LEASE, Setup};
use crate::fault::Fault;
use crate::mutant::SPEED_UP;
use crate::processes::ProcessSpec;
use crate::report;
use crate::role::{JobMix, Serves};
use crate::schedule::schedule;
use crate::server::Disk;
use crate::summary::RoundResult;

const ENQUEUERS: u32 = 2;
const WORKERS: usize = 4;
const OPERATORS: usize = 2;
/// How long the drain may take after the last fault.
const DRAIN: Duration = Duration::from_mins(20);

/// How long a round may go on until all required paths were taken.
const EXTENSION: Duration = Duration::from_mins(5);
/// How long jobs meet no fault between two checks of the paths.
const BREATH: Duration = Duration::from_secs(4);
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
    pub(crate) pooler: Pooler,
}

impl Round<'_> {
    /// Runs it and prints what the checker found.
    pub(crate) fn run(&self) -> RoundResult {
        let begin = Instant::now();
        let disk = match self.faults.contains(&Fault::DiskFull) {
            true => Disk::Small,
            false => Disk::Plain,
        };
        let mut env = Environment::start(&Setup {
            programs: self.programs,
            pooler: self.pooler,
            disk,
            seed: self.seed,
            lease: LEASE,
            patches: SPEED_UP,
            state_timeout: Duration::ZERO,
        });
        env.set_group_policies();
        env.set_rate_limits(self.rate);
        env.redact();
        env.shake_gateway();
        for _ in 0..WORKERS {
            env.add(ProcessSpec {
                slots: SLOTS,
                serves: Serves::All,
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
        env.add_exporter();
        env.begin();
        let steps = schedule(self.seed, self.length, &self.faults);
        for step in &steps {
            env.pass_until(step.at);
            env.inject(step.fault, step.duration, step.target);
        }
        env.pass_until(self.length);
        let untaken = self.extend(&mut env);
        let injected = begin.elapsed();
        let finished = env.finish(DRAIN);
        let findings = checker::check(&finished.records);
        println!(
            "seed {}: {:.0} s with {} faults, {} of them proven, {:.0} s in total\n    {}",
            self.seed,
            injected.as_secs_f64(),
            steps.len(),
            finished.proven,
            begin.elapsed().as_secs_f64(),
            report::describe(&finished.records, &findings),
        );
        let mut missing = finished.missing.clone();
        missing.extend(
            untaken
                .iter()
                .map(|path| format!("enough of the path `{path}`")),
        );
        println!("    paths:{}", findings.paths);
        let mut result = RoundResult {
            seed: self.seed,
            jobs: usize::try_from(findings.totals.jobs).unwrap_or_default(),
            faults: steps.len(),
            ..RoundResult::default()
        };
        for missing in &missing {
            println!("    did not happen: {missing}");
        }
        for violation in &findings.violations {
            *result
                .violations
                .entry(violation.rule.number())
                .or_insert(0) += 1;
        }
        if !result.has_passed() {
            println!(
                "Records and server log: {}\nRepeat with: {}",
                finished.keep().display(),
                self.command()
            );
        }
        result
    }

    /// Goes on until the required paths were taken, with the faults that lead to them. Returns the
    /// paths that were not.
    fn extend(&self, env: &mut Environment) -> Vec<Path> {
        let begin = Instant::now();
        let mut target = 0;
        loop {
            let missing = checker::check(&env.records()).paths.missing(self);
            if missing.is_empty() || begin.elapsed() > EXTENSION {
                return missing;
            }
            let names: Vec<String> = missing.iter().map(Path::to_string).collect();
            println!("seed {}: continues for: {}", self.seed, names.join(", "));
            let mut faults: Vec<Fault> = missing.iter().filter_map(|path| path.fault()).collect();
            faults.dedup();
            env.pass(BREATH);
            for fault in faults {
                target += 1;
                // Twice the longest duration, so that a slow machine runs the jobs of a paused worker in time.
                let length = Duration::from_millis(2 * fault.duration().end);
                env.inject(fault, length, target);
            }
        }
    }

    /// Returns the command that repeats the round.
    fn command(&self) -> String {
        let faults: Vec<String> = self.faults.iter().map(ToString::to_string).collect();
        format!(
            "cargo run -p redrive-chaos -- run --seed {} --seconds {} --rate {} --faults {} --pooler {} \
             --postgres {} --pgbouncer {}",
            self.seed,
            self.length.as_secs(),
            self.rate,
            faults.join(","),
            self.pooler,
            self.programs.postgres.display(),
            self.programs.pgbouncer.display(),
        )
    }
}
