//! The scenes: short plays, each of which brings one kind of mistake to light. Without a mutant
//! they are green.

use std::time::Duration;

use clap::ValueEnum;
use redrive::Pooler;
use rustix::process::Signal;

use crate::Programs;
use crate::actor::{Diet, Flaw, Role};
use crate::checker::{self, Findings, Records};
use crate::fault::Fault;
use crate::mutant::{How, Mutant, QUICK};
use crate::opener::Opener;
use crate::proxy::Patch;
use crate::server::Disk;
use crate::stage::Stage;
use crate::troupe::Part;

/// How long everything may take to come to an end after a scene.
const PATIENCE: Duration = Duration::from_secs(25);

/// A scene.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Scene {
    /// Everybody at work, and nothing happens to anybody
    Work,
    /// Jobs that take a while, and nothing happens to anybody
    Slow,
    /// A worker is paused for longer than its lease
    Pause,
    /// Workers are killed
    Kills,
    /// Some jobs kill their process
    Poison,
    /// The server crashes while a worker stands still
    Restart,
    /// A worker is told to end again and again, in the middle of the same jobs
    Restless,
    /// Few unique keys, much in demand
    Unique,
    /// Operators at the same letters at once
    Operators,
    /// Letters wait, are closed and deleted
    Prune,
    /// The ring turns, and transactions stay open
    Ring,
    /// Answers are lost
    Lossy,
    /// Everybody is behind a PgBouncer in transaction mode, and a little of everything happens
    Pooler,
}

impl Scene {
    /// Plays it, with a mutant or as it should be.
    pub(crate) fn play(self, programs: &Programs, mutant: Option<&Mutant>) -> (Records, Findings) {
        let mut patches: Vec<Patch> = QUICK.to_vec();
        let mut flaw = Flaw::None;
        let mut functions = Vec::new();
        match mutant.map(|mutant| mutant.how) {
            Some(How::Statements(changed)) => patches.extend(changed),
            Some(How::Functions(changed)) => functions.extend(changed),
            Some(How::Client(how)) => flaw = how,
            None => {}
        }
        let mut stage = Stage::set_up(programs, self.pooler(), Disk::Plain, 1, &patches);
        for (function, changes) in functions {
            stage.replace(function, changes);
        }
        self.act(&mut stage, flaw);
        let wound = stage.wind_up(PATIENCE);
        let findings = checker::check(&wound.records);
        (wound.records, findings)
    }

    /// What is between the actors and the server.
    fn pooler(self) -> Pooler {
        match self {
            Scene::Pooler => Pooler::Transaction,
            _ => Pooler::Session,
        }
    }

    #[expect(clippy::too_many_lines, reason = "a scene after the other")]
    fn act(self, stage: &mut Stage, flaw: Flaw) {
        let enqueuer = |rate, diet| Part {
            flaw,
            ..Part::enqueuer(rate, diet)
        };
        let seconds = Duration::from_secs;
        let workers =
            |stage: &mut Stage, count: usize| (0..count).for_each(|_| stage.add(Part::worker()));
        let wait = |stage: &mut Stage, time: Duration| _ = stage.pass(time, |_| false);
        match self {
            Scene::Work => {
                workers(stage, 2);
                stage.add(enqueuer(120, Diet::Tame));
                stage.add(Part::operator());
                wait(stage, seconds(5));
            }
            Scene::Slow => {
                workers(stage, 2);
                stage.add(enqueuer(25, Diet::Slow));
                wait(stage, seconds(4));
            }
            Scene::Pause => {
                workers(stage, 2);
                stage.add(enqueuer(45, Diet::Slow));
                wait(stage, seconds(2));
                stage.do_to_them(Fault::Pause, seconds(5), 0);
                wait(stage, seconds(2));
            }
            Scene::Kills => {
                workers(stage, 3);
                stage.add(enqueuer(200, Diet::Mixed));
                for whom in 0..6 {
                    wait(stage, Duration::from_millis(900));
                    stage.do_to_them(Fault::Kill, Duration::ZERO, whom);
                }
            }
            Scene::Poison => {
                workers(stage, 2);
                stage.add(enqueuer(40, Diet::Deadly));
                wait(stage, seconds(12));
            }
            // The one that stood still has used its time up when the server is there again; who
            // comes first must not be its judge at once.
            Scene::Restart => {
                workers(stage, 2);
                stage.add(enqueuer(45, Diet::Slow));
                wait(stage, seconds(2));
                let first = stage.troupe.all(Role::Worker)[0];
                stage.troupe.note("the first worker stands still");
                stage.troupe.signal(first, Signal::STOP);
                wait(stage, Duration::from_millis(1900));
                stage.do_to_them(Fault::Crash, Duration::from_millis(150), 0);
                workers(stage, 1);
                wait(stage, Duration::from_millis(3500));
                stage.troupe.signal(first, Signal::CONT);
            }
            Scene::Restless => {
                stage.add(Part {
                    grace: Duration::ZERO,
                    ..Part::worker()
                });
                stage.add(Part {
                    jobs: 4,
                    ..enqueuer(0, Diet::Long)
                });
                for life in 1..=13 {
                    stage.pass(seconds(10), |stage| stage.troupe.life(0) == life);
                    stage.pass_until_it_works(0);
                    stage.do_to_them(Fault::Terminate, Duration::ZERO, 0);
                }
            }
            Scene::Unique => {
                workers(stage, 2);
                (0..2).for_each(|_| stage.add(enqueuer(60, Diet::Unique)));
                wait(stage, seconds(5));
            }
            Scene::Operators => {
                workers(stage, 2);
                stage.add(enqueuer(60, Diet::Rejected));
                for _ in 0..4 {
                    stage.add(Part {
                        rate: 100,
                        ..Part::operator()
                    });
                }
                wait(stage, seconds(6));
            }
            Scene::Prune => {
                workers(stage, 1);
                stage.add(enqueuer(40, Diet::Rejected));
                stage.add(Part::operator());
                wait(stage, seconds(8));
            }
            Scene::Ring => {
                workers(stage, 2);
                (0..4).for_each(|_| stage.add(enqueuer(0, Diet::Open)));
                stage.add(enqueuer(200, Diet::Easy));
                let mut opener = Opener::new(stage);
                for _ in 0..12 {
                    wait(stage, Duration::from_millis(500));
                    opener.enqueue_across_a_turn();
                }
            }
            Scene::Lossy => {
                workers(stage, 2);
                stage.add(enqueuer(60, Diet::Easy));
                for _ in 0..8 {
                    wait(stage, Duration::from_millis(400));
                    for enqueuer in stage.troupe.all(Role::Enqueuer) {
                        stage.troupe.note("the next answer is lost");
                        stage.troupe.proxy(enqueuer).lose_answers(1);
                    }
                }
            }
            Scene::Pooler => {
                workers(stage, 3);
                stage.add(enqueuer(80, Diet::Mixed));
                stage.add(Part::operator());
                let (ms, at_once) = (Duration::from_millis, Duration::ZERO);
                for (whom, fault, lasting) in [
                    (0, Fault::Kill, at_once),
                    (1, Fault::LoseAnswers, at_once),
                    (2, Fault::Cut, at_once),
                    (3, Fault::LoseAnswers, at_once),
                    (1, Fault::Terminate, at_once),
                    (0, Fault::KillBackend, at_once),
                    (0, Fault::Silence, ms(1500)),
                    (0, Fault::KillClient, at_once),
                    (0, Fault::Crash, ms(150)),
                ] {
                    wait(stage, ms(900));
                    stage.do_to_them(fault, lasting, whom);
                }
                wait(stage, seconds(1));
            }
        }
    }
}
