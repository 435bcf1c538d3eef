//! The scenes. Each is played under many schedules.

use std::time::Duration;

use crate::floor::{Instant, thread};
use crate::scene::{End, Stage, play, random, random_time};
use crate::server::Mood;
use crate::tripped::State;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);

/// A scene by its name.
#[derive(Clone, Copy, Debug)]
pub struct Scene {
    /// What it is called.
    pub name: &'static str,
    /// How much of a schedule's time it takes, compared with the quickest.
    pub weight: u64,
    play: fn(),
}

/// All scenes.
pub const SCENES: &[Scene] = &[
    Scene {
        name: "busy",
        weight: 1,
        play: busy,
    },
    Scene {
        name: "stopped",
        weight: 1,
        play: stopped,
    },
    Scene {
        name: "woken",
        weight: 1,
        play: woken,
    },
    Scene {
        name: "suspects",
        weight: 1,
        play: suspects,
    },
    Scene {
        name: "followed",
        weight: 1,
        play: followed,
    },
    Scene {
        name: "overrun",
        weight: 1,
        play: overrun,
    },
    Scene {
        name: "dropped",
        weight: 1,
        play: dropped,
    },
    Scene {
        name: "outage",
        weight: 4,
        play: outage,
    },
    Scene {
        name: "tripped",
        weight: 4,
        play: tripped,
    },
    Scene {
        name: "distrusted",
        weight: 10,
        play: distrusted,
    },
    Scene {
        name: "flood",
        weight: 20,
        play: flood,
    },
];

impl Scene {
    /// Plays it under so many schedules, with seeds from this one on.
    ///
    /// # Panics
    /// When a rule is broken, with everything that is known about it.
    pub fn play(&self, schedules: u64, seed: u64) {
        play(self.play, schedules, seed);
    }
}

/// A run of up to 30 ms that ends in one of three ways; a retry ends well at last.
fn any_end(_: i64) -> (Duration, End) {
    let end = match random(6) {
        0 => End::Retry,
        1 => End::Reject,
        _ => End::Done,
    };
    (random_time(30 * MS), end)
}

/// Jobs that go well, fail and die, until all are dealt with; then a stop.
fn busy() {
    let stage = Stage::new(5, 4 * MS);
    let worker = stage.worker(any_end).start().expect("a worker");
    stage.wait_until_drained();
    let stopped = stage.stop(worker, SECOND);
    stage.check(5);
    stage.check_nothing_is_left();
    let tables = stage.server.tables();
    let counts = stopped.counts;
    assert_eq!(counts.done, tables.done.len() as u64, "{counts:?}");
    assert_eq!(counts.dead, tables.dead.len() as u64, "{counts:?}");
    assert_eq!(counts.lost, 0, "{counts:?}");
}

/// A stop at any moment, with little grace or none.
fn stopped() {
    let stage = Stage::new(6, 4 * MS);
    let worker = stage.worker(any_end).start().expect("a worker");
    thread::sleep(random_time(60 * MS));
    stage.stop(worker, random_time(20 * MS));
    stage.check(6);
    stage.check_nothing_is_left();
}

/// Jobs whose enqueues begin and commit at any moment, for a worker that idles and would look by
/// itself only after a minute.
fn woken() {
    let stage = Stage::new(0, 4 * MS);
    let worker = stage
        .worker(|_| (Duration::ZERO, End::Done))
        .poll(60 * SECOND)
        .start()
        .expect("a worker");
    let mut committed = Vec::new();
    let jobs = 1 + i64::try_from(random(2)).unwrap_or(0);
    for id in 1..=jobs {
        thread::sleep(random_time(12 * MS));
        let notify = stage.server.somebody_waits();
        let began = Instant::now();
        thread::sleep(random_time(10 * MS));
        stage.server.enqueue(&[id], notify);
        committed.push((id, began, Instant::now()));
    }
    stage.wait_until_drained();
    stage.stop(worker, SECOND);
    stage.check(jobs);
    for (id, began, committed) in committed {
        // As long as its own transaction took, and the looks in between.
        let patience = 2 * (committed - began) + 100 * MS;
        let waited = stage.began(id).map(|at| at - committed);
        assert!(
            waited.is_some_and(|waited| waited <= patience),
            "job {id} waited {waited:?}"
        );
    }
}

/// Jobs that lost a worker before, among others.
///
/// There are more of them than of the others, and the server takes its time: so it happens that a
/// round which claims twice finds nothing but suspects, and has the right to one of them.
fn suspects() {
    let jobs = 12;
    let stage = Stage::new(jobs, 8 * MS);
    stage.suspect((1..=jobs).filter(|id| *id != 3 && *id != 8));
    let worker = stage.worker(any_end).start().expect("a worker");
    stage.wait_until_drained();
    stage.stop(worker, SECOND);
    stage.check(jobs);
    stage.check_nothing_is_left();
}

/// Nothing but suspects, which are done at once: each follows the one before, and no poll is waited
/// for.
fn followed() {
    let jobs = 10;
    let stage = Stage::new(jobs, 4 * MS);
    stage.suspect(1..=jobs);
    let begin = Instant::now();
    let worker = stage
        .worker(|_| (Duration::ZERO, End::Done))
        .start()
        .expect("a worker");
    stage.wait_until_drained();
    let took = begin.elapsed();
    assert!(took < SECOND, "{jobs} suspects took {took:?}");
    stage.stop(worker, SECOND);
    stage.check(jobs);
    stage.check_nothing_is_left();
}

/// A handler that runs on beyond its deadline, and a stop that does not wait for it.
fn overrun() {
    let stage = Stage::new(4, 4 * MS);
    let worker = stage
        .worker(|id| match id {
            2 => (3 * SECOND, End::Done),
            _ => (random_time(10 * MS), End::Done),
        })
        .deadline(200 * MS)
        .start()
        .expect("a worker");
    thread::sleep(random_time(800 * MS));
    stage.stop(worker, random_time(100 * MS));
    stage.check(4);
    stage.check_nothing_is_left();
}

/// A worker that is dropped without a stop, and another one that takes over.
fn dropped() {
    let stage = Stage::new(4, 4 * MS);
    let worker = stage.worker(any_end).start().expect("a worker");
    thread::sleep(random_time(60 * MS));
    drop(worker);
    let worker = stage.worker(any_end).start().expect("a worker");
    stage.wait_until_drained();
    stage.stop(worker, SECOND);
    stage.check(4);
}

/// A server that is slow, away, silent or mute at any moment and for any time, up to more than a lease,
/// under two workers.
fn outage() {
    let stage = Stage::new(5, 4 * MS);
    let plan = |_| (random_time(400 * MS), End::Done);
    let workers = [(); 2].map(|()| stage.worker(plan).start().expect("a worker"));
    for _ in 0..2 {
        thread::sleep(random_time(2 * SECOND));
        if random(2) == 0 {
            stage.server.becomes(Mood::Slow);
            thread::sleep(random_time(3 * SECOND));
        }
        let mood = [Mood::Away, Mood::Silent, Mood::Mute][random(3)];
        stage.server.becomes(mood);
        thread::sleep(random_time(8 * SECOND));
        stage.server.becomes(Mood::Well);
    }
    stage.wait_until_drained();
    for worker in workers {
        // What it held in vain may be on its way back.
        worker.stop(SECOND).expect("a server that is well");
    }
    stage.check(5);
    stage.check_nothing_is_held();
}

/// Something that all jobs need is down at first, for up to some seconds: two workers, each of which
/// may open the breaker, probe and close it.
fn tripped() {
    let jobs = 6;
    let stage = Stage::new(jobs, 4 * MS);
    let down_for = random_time(6 * SECOND);
    let until = Instant::now() + down_for;
    let plan = move |_| {
        let end = match Instant::now() < until {
            true => End::Outage,
            false => End::Done,
        };
        (random_time(30 * MS), end)
    };
    let worker = || stage.worker(plan).breaker_after(2).start();
    let workers = [(); 2].map(|()| worker().expect("a worker"));
    stage.wait_until_drained();
    for worker in workers {
        stage.stop(worker, SECOND);
    }
    stage.check(jobs);
    stage.check_nothing_is_charged();
    stage.check_nothing_is_left();
    let tables = stage.server.tables();
    assert_eq!(tables.done.len(), 6, "an outage is nobody's end");
    let breaker = tables.breakers.get("queue:q");
    if down_for > SECOND {
        let breaker = breaker.expect("a breaker");
        assert_eq!(breaker.state, State::Closed, "{breaker:?}");
        assert!(breaker.openings >= 1 && breaker.probes >= 1, "{breaker:?}");
    }
}

/// Jobs that were claimed because all were quick, and wait behind two that are slow, while the
/// server is silent for longer than a lease.
fn distrusted() {
    let jobs = 24;
    let stage = Stage::new(jobs, 2 * MS);
    let worker = stage
        .worker(|id| match id {
            11 | 12 => (4 * SECOND, End::Done),
            _ => (Duration::ZERO, End::Done),
        })
        .hold_for(60 * SECOND)
        .start()
        .expect("a worker");
    thread::sleep(random_time(30 * MS));
    stage
        .server
        .becomes([Mood::Away, Mood::Silent, Mood::Mute][random(3)]);
    thread::sleep(random_time(8 * SECOND));
    stage.server.becomes(Mood::Well);
    stage.wait_until_drained();
    stage.stop(worker, 5 * SECOND);
    stage.check(jobs);
    stage.check_nothing_is_held();
}

/// More jobs than one claim takes: the second fetcher helps. A stop at any moment.
fn flood() {
    let jobs = 1300;
    let stage = Stage::new(jobs, 2 * MS);
    let worker = stage
        .worker(|_| (Duration::ZERO, End::Done))
        .start()
        .expect("a worker");
    thread::sleep(random_time(60 * MS));
    stage.stop(worker, random_time(20 * MS));
    stage.check(jobs);
    stage.check_nothing_is_left();
}
