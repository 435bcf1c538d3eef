//! A round: everybody at work for a while, with a seeded plan of faults, and a check at the end.

use std::time::{Duration, Instant};

use redrive::Pooler;

use crate::Programs;
use crate::account::Outcome;
use crate::actor::Diet;
use crate::checker;
use crate::fault::Fault;
use crate::mutant::QUICK;
use crate::plan::plan;
use crate::report;
use crate::server::{Disk, can_mount};
use crate::stage::Stage;
use crate::troupe::Part;

/// How many of the jobs an enqueuer stores; the rest are another's.
const ENQUEUERS: u32 = 2;
const WORKERS: usize = 4;
/// How long all jobs may take to end when nothing is in their way any more.
const DRAIN: Duration = Duration::from_mins(20);

/// How a round is played.
#[derive(Clone, Debug)]
pub(crate) struct Round<'a> {
    pub(crate) programs: &'a Programs,
    pub(crate) seed: u64,
    pub(crate) length: Duration,
    pub(crate) faults: Vec<Fault>,
    /// Jobs a second.
    pub(crate) rate: u32,
    /// What is between the actors and the server.
    pub(crate) pooler: Pooler,
}

impl Round<'_> {
    /// Plays it, and tells what came of it.
    pub(crate) fn play(&self) -> Outcome {
        let begin = Instant::now();
        let needs_disk = self.faults.contains(&Fault::DiskFull);
        let disk = if needs_disk && can_mount() {
            Disk::Small
        } else {
            Disk::Plain
        };
        let mut faults = self.faults.clone();
        if needs_disk && disk == Disk::Plain {
            println!("    no file system can be mounted here: no full disk");
            faults.retain(|fault| *fault != Fault::DiskFull);
        }
        let mut stage = Stage::set_up(self.programs, self.pooler, disk, self.seed, QUICK);
        for _ in 0..WORKERS {
            stage.add(Part::worker());
        }
        for _ in 0..ENQUEUERS {
            stage.add(Part::enqueuer(self.rate / ENQUEUERS, Diet::Mixed));
        }
        for _ in 0..2 {
            stage.add(Part::operator());
        }
        stage.publish();
        stage.begin();
        let steps = plan(self.seed, self.length, &faults);
        for step in &steps {
            stage.pass_until(step.at);
            stage.do_to_them(step.fault, step.lasting, step.whom);
        }
        stage.pass_until(self.length);
        let played = begin.elapsed();
        let wound = stage.wind_up(DRAIN);
        let findings = checker::check(&wound.records);
        println!(
            "seed {}: {:.0} s with {} faults, {:.0} s in all\n    {}",
            self.seed,
            played.as_secs_f64(),
            steps.len(),
            begin.elapsed().as_secs_f64(),
            report::told(&wound.records, &findings),
        );
        let mut outcome = Outcome {
            seed: self.seed,
            jobs: usize::try_from(findings.tally.jobs).unwrap_or_default(),
            faults: steps.len(),
            ..Outcome::default()
        };
        for violation in &findings.violations {
            *outcome.broken.entry(violation.rule.says().0).or_insert(0) += 1;
        }
        if !outcome.is_green() {
            println!(
                "The records of all, and the server's log: {}\nAgain: {}",
                wound.keep().display(),
                self.again()
            );
        }
        outcome
    }

    /// How to have it once more.
    pub(crate) fn again(&self) -> String {
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
