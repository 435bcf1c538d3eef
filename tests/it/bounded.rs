//! Bounded: every call answers within its deadline, when the server takes everything and says
//! nothing.

mod calls;
mod listed;
mod verbs;

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use redrive::{
    Act, Database, Error, JobId, LetterState, Letters, Policy, Queue, Redaction, Retention,
    RunOptions,
};
use redrive_tests::{Cable, Cluster, Order, TestDatabase, letters};

use calls::{CALLS, Call, Scene, When};

/// The deadlines of the handles that the calls are made with, short enough to be waited for.
const CONNECT: Duration = Duration::from_millis(800);
const USUAL: Duration = Duration::from_millis(600);
const BULK: Duration = Duration::from_millis(1200);

/// What a machine on its knees may add. Deadlines that a builder does not know are longer.
const SLACK: Duration = Duration::from_secs(6);

/// How many calls are made at a time: they wait more than they work.
const AT_ONCE: usize = 24;

fn open(url: &str) -> Database {
    Database::builder(url)
        .connect_timeout(CONNECT)
        .call_timeout(USUAL)
        .bulk_timeout(BULK)
        .open()
        .expect("open the database of the test")
}

/// Something of everything, so that calls find what they are about.
fn furnish(queue: &Queue) -> Vec<JobId> {
    let db = queue.database();
    let ids = letters(queue, 3);
    queue.enqueue(&Order { number: 4 }).unwrap();
    let act = Act::new().why("a test");
    let policy = Policy::new("nightly", Letters::queue("orders"));
    db.set_policy(&policy, &act).unwrap();
    db.add_redaction(&Redaction::new().path("/number"), &act)
        .unwrap();
    let month = Duration::from_hours(720);
    db.set_retention(&Retention::archive(LetterState::Recovered, month), &act)
        .unwrap();
    db.open_breaker("mail", None, &act).unwrap();
    let options = RunOptions::new();
    db.create_run(&Letters::queue("orders"), &options, &act)
        .unwrap()
        .expect("letters");
    ids
}

/// What went wrong with a call.
fn trouble(call: &Call, when: When, took: Duration, answer: Result<(), Error>) -> Option<String> {
    let limit = call.limit.of(CONNECT, USUAL, BULK);
    let name = call.name;
    if took > limit + SLACK {
        return Some(format!(
            "{name}, {when:?}: answered after {took:?}, not within {limit:?}"
        ));
    }
    match (when, answer) {
        (When::Midway(_), _) => None,
        (When::Unconnected | When::Connected, Err(error)) if error.is_unavailable() => None,
        (When::Unconnected | When::Connected, Err(error)) => {
            Some(format!("{name}, {when:?}: {error:?}"))
        }
        (When::Unconnected | When::Connected, Ok(())) => {
            Some(format!("{name}, {when:?}: all is well, it says"))
        }
    }
}

#[test]
fn every_call_answers_in_time_when_the_server_is_silent() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let ids = furnish(&queue);
    let whens = [
        When::Unconnected,
        When::Connected,
        When::Midway(1),
        When::Midway(3),
    ];
    let all = CALLS
        .iter()
        .flat_map(|call| whens.map(|when| (call, when)))
        .filter(|(call, when)| call.comes(*when));
    let waiting: Mutex<VecDeque<(&Call, When)>> = Mutex::new(all.collect());
    let troubles = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap().pop_front();
                    let Some((call, when)) = next else { return };
                    let cable = Cable::to(test.url());
                    let scene = Scene {
                        db: open(cable.url()),
                        cable,
                        when,
                        letter: ids[0],
                        begun: Cell::new(None),
                    };
                    let answer = call.make(&scene);
                    let begun = scene.begun.get().expect("the call tells when it begins");
                    let found = trouble(call, when, begun.elapsed(), answer);
                    troubles.lock().unwrap().extend(found);
                }
            });
        }
    });
    let troubles = troubles.into_inner().unwrap();
    assert!(troubles.is_empty(), "\n{}\n", troubles.join("\n"));
}

#[test]
fn a_server_that_stands_still_is_no_other_than_a_silent_network() {
    let cluster = Cluster::new();
    cluster.start();
    cluster.migrate();
    let (connected, unconnected) = (open(&cluster.url()), open(&cluster.url()));
    connected.check_schema().unwrap();
    let silence = cluster.silence();
    for db in [&connected, &unconnected] {
        let begun = Instant::now();
        let error = db.check_schema().expect_err("nobody answers");
        assert!(error.is_unavailable(), "{error:?}");
        assert!(begun.elapsed() < USUAL + SLACK, "{:?}", begun.elapsed());
        let begun = Instant::now();
        let error = db.letters(&Letters::all()).expect_err("nobody answers");
        assert!(error.is_unavailable(), "{error:?}");
        assert!(begun.elapsed() < BULK + SLACK, "{:?}", begun.elapsed());
    }
    drop(silence);
    // What was stuck goes on, and so does everything else.
    for db in [&connected, &unconnected] {
        db.check_schema().unwrap();
    }
}
