//! Deadlines: every call returns in time even if the server accepts data and never replies.

mod calls;
mod commands;
mod coverage;

use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use redrive::dlq::runs::RunOptions;
use redrive::dlq::{LetterFilter, LetterState, Policy, Redaction, RetentionRule};
use redrive::{Database, Error, JobId, Operator, Queue};
use redrive_tests::{Cluster, Order, Proxy, SOON, TestDatabase, eventually, letters, wait_until};

use calls::{Call, Scene, When, calls};

/// The deadlines of the handles, short enough for a test.
const CONNECT: Duration = Duration::from_millis(800);
const USUAL: Duration = Duration::from_millis(600);
const BULK: Duration = Duration::from_millis(1200);

/// The delay that an overloaded machine may add.
const SLACK: Duration = Duration::from_secs(6);

/// The number of concurrent calls, which mostly wait.
const AT_ONCE: usize = 24;

fn open(url: &str) -> Database {
    eventually("a connection", || try_open(url))
}

fn try_open(url: &str) -> Result<Database, Error> {
    Database::builder(url)
        .connect_timeout(CONNECT)
        .call_timeout(USUAL)
        .bulk_timeout(BULK)
        .open()
}

/// Makes a row of each kind, so that every call finds one.
fn furnish(queue: &Queue) -> Vec<JobId> {
    let db = queue.database();
    let ids = letters(queue, 3);
    queue.enqueue(&Order { number: 4 }).unwrap();
    let operator = Operator::default().reason("a test");
    let policy = Policy::new("nightly", LetterFilter::new().queue("orders"));
    db.dlq().policies().set(&policy, &operator).unwrap();
    db.dlq()
        .redactions()
        .add(&Redaction::new().path("/number"), &operator)
        .unwrap();
    let month = Duration::from_hours(720);
    db.dlq()
        .retention()
        .set(
            &RetentionRule::archive(LetterState::Recovered, month),
            &operator,
        )
        .unwrap();
    db.admin().open_breaker("mail", None, &operator).unwrap();
    let options = RunOptions::new();
    db.dlq()
        .runs()
        .create(&LetterFilter::new().queue("orders"), &options, &operator)
        .unwrap()
        .expect("letters");
    ids
}

/// Makes a call while the server becomes silent. Returns how long it took from then on, and its
/// result.
fn play(call: &Call, when: When, url: &str, letter: JobId) -> (Duration, Result<(), Error>) {
    let mut played = None;
    // On a busy machine, the preparation may miss the short deadlines before the server is silent.
    wait_until("the preparation of a call", SOON, || {
        let proxy = Proxy::to(url);
        let Ok(db) = try_open(proxy.url()) else {
            return false;
        };
        let scene = Scene {
            db,
            proxy,
            when,
            letter,
            begun: Cell::new(None),
        };
        let answer = call.make(&scene);
        played = scene.begun.get().map(|begun| (begun.elapsed(), answer));
        played.is_some()
    });
    played.expect("the call was made")
}

/// Returns what is wrong with the result of a call.
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
fn every_call_returns_within_its_deadline_when_the_server_is_silent() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let ids = furnish(&queue);
    let whens = [
        When::Unconnected,
        When::Connected,
        When::Midway(1),
        When::Midway(3),
    ];
    let all = calls()
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
                    let (took, answer) = play(call, when, test.url(), ids[0]);
                    let found = trouble(call, when, took, answer);
                    troubles.lock().unwrap().extend(found);
                }
            });
        }
    });
    let troubles = troubles.into_inner().unwrap();
    assert!(troubles.is_empty(), "\n{}\n", troubles.join("\n"));
}

#[test]
fn every_call_returns_within_its_deadline_when_the_server_is_frozen() {
    let cluster = Cluster::new();
    cluster.start();
    cluster.migrate();
    let (connected, unconnected) = (open(&cluster.url()), open(&cluster.url()));
    connected.check_schema().unwrap();
    let silence = cluster.silence();
    for db in [&connected, &unconnected] {
        let begun = Instant::now();
        let error = db.check_schema().expect_err("the server is silent");
        assert!(error.is_unavailable(), "{error:?}");
        assert!(begun.elapsed() < USUAL + SLACK, "{:?}", begun.elapsed());
        let begun = Instant::now();
        let error = db
            .dlq()
            .list(&LetterFilter::new())
            .expect_err("the server is silent");
        assert!(error.is_unavailable(), "{error:?}");
        assert!(begun.elapsed() < BULK + SLACK, "{:?}", begun.elapsed());
    }
    drop(silence);
    // Afterwards every call works again.
    for db in [&connected, &unconnected] {
        db.check_schema().unwrap();
    }
}

#[test]
fn a_call_to_a_silent_server_returns_within_its_deadline() {
    let cluster = Cluster::new();
    cluster.start();
    cluster.migrate();
    let deadline = Duration::from_secs(2);
    let db = Database::builder(&cluster.url())
        .call_timeout(deadline)
        .open()
        .unwrap();
    let queue = Queue::new(&db, "orders").unwrap();
    assert!(queue.is_drained().unwrap());
    let silence = cluster.silence();
    let asked = Instant::now();
    let error = queue.is_drained().expect_err("the server is silent");
    let took = asked.elapsed();
    assert!(error.is_unavailable(), "{error:?}");
    // Without the deadline the call would take many times as long.
    assert!(took < 4 * deadline, "{took:?}");
    drop(silence);
    assert!(queue.is_drained().expect("the connection is replaced"));
}
