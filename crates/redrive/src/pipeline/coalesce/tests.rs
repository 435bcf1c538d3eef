//! Calls whose statements a test answers one by one.

use std::thread::{self, JoinHandle};

use super::*;
use crate::job::job::JobId;
use crate::sync::channel::unbounded;

const LONG: Duration = Duration::from_mins(1);

/// A statement that waits for its answer.
struct Statement {
    jobs: Arc<[NewJob]>,
    answer: Sender<Result<Vec<Enqueued>>>,
}

impl Statement {
    fn payloads(&self) -> Vec<&str> {
        self.jobs.iter().map(|job| job.payload.as_str()).collect()
    }

    /// Stores the jobs: the payload of each is its id.
    fn store(self) {
        let id = |payload: &str| stored_as(payload.parse().expect("a number"));
        let ids = self.payloads().into_iter().map(id).collect();
        self.answer.send(Ok(ids)).expect("the call waits");
    }

    fn fail(self, error: Error) {
        self.answer.send(Err(error)).expect("the call waits");
    }
}

struct Calls {
    coalescer: Arc<Coalescer>,
    sent: Sender<Statement>,
    statements: Receiver<Statement>,
}

impl Calls {
    fn new() -> Calls {
        let (sent, statements) = unbounded();
        Calls {
            coalescer: Arc::default(),
            sent,
            statements,
        }
    }

    /// Enqueues a job on a thread. Returns when it has sent its statement or stands in line.
    fn call(&self, payload: i64, deadline: Duration) -> JoinHandle<Result<Enqueued>> {
        let (coalescer, sent) = (Arc::clone(&self.coalescer), self.sent.clone());
        let before = self.known();
        let thread = thread::spawn(move || {
            let job = NewJob::raw("k", &payload.to_string()).expect("a good job");
            coalescer.enqueue("orders", job, deadline, &|jobs, _| {
                let (answer, answered) = bounded(1);
                let statement = Statement { jobs, answer };
                sent.send(statement).expect("the test runs");
                answered.recv().expect("the test answers")
            })
        });
        while self.known() == before && !thread.is_finished() {
            thread::yield_now();
        }
        thread
    }

    /// Calls that run or have stood in line.
    fn known(&self) -> (usize, u64) {
        let line = lock(&self.coalescer.0);
        (line.running, line.calls)
    }

    fn statement(&self) -> Statement {
        self.statements.recv_timeout(LONG).expect("a statement")
    }

    /// Starts as many statements as may run, and returns their calls.
    fn busy(&self) -> (Vec<JoinHandle<Result<Enqueued>>>, Vec<Statement>) {
        let call = |n| (self.call(n, LONG), self.statement());
        (0..).take(STATEMENTS).map(call).unzip()
    }
}

fn stored_as(id: i64) -> Enqueued {
    Enqueued::New(JobId::new(id))
}

fn id(thread: JoinHandle<Result<Enqueued>>) -> Result<Enqueued> {
    thread.join().expect("no panic")
}

/// Asserts that the calls of these threads have stored their jobs.
#[track_caller]
fn stored(calls: impl IntoIterator<Item = (i64, JoinHandle<Result<Enqueued>>)>) {
    for (payload, thread) in calls {
        assert_eq!(id(thread).expect("stored"), stored_as(payload));
    }
}

#[test]
fn calls_that_wait_share_the_next_statement() {
    let calls = Calls::new();
    let (first, mut running) = calls.busy();
    let waiting: Vec<_> = (10..15).map(|n| (n, calls.call(n, LONG))).collect();
    assert!(calls.statements.is_empty(), "all places are taken");
    running.remove(0).store();
    let shared = calls.statement();
    assert_eq!(shared.payloads(), ["10", "11", "12", "13", "14"]);
    shared.store();
    stored(waiting);
    running.remove(0).store();
    stored((0..).zip(first));
    assert_eq!(lock(&calls.coalescer.0).running, 0);
}

#[test]
fn after_a_rejection_each_call_repeats_its_own_job() {
    let calls = Calls::new();
    let (_first, mut running) = calls.busy();
    let [bad, good, better] = [10, 11, 12].map(|n| calls.call(n, LONG));
    running.remove(0).store();
    calls.statement().fail(Error::invalid("a bad job"));
    for _ in 0..3 {
        let alone = calls.statement();
        match *alone.payloads() {
            ["10"] => alone.fail(Error::invalid("a bad job")),
            [_] => alone.store(),
            _ => panic!("{:?}", alone.payloads()),
        }
    }
    assert!(id(bad).expect_err("bad").is_invalid());
    stored([(11, good), (12, better)]);
    running.remove(0).store();
}

#[test]
fn an_unknown_outcome_is_reported_to_each_call_and_not_repeated() {
    let calls = Calls::new();
    let (_first, mut running) = calls.busy();
    let waiting = [10, 11, 12].map(|n| calls.call(n, LONG));
    running.remove(0).store();
    let lost = Error::lost("no answer").caused_by(Error::invalid("the cause"));
    calls.statement().fail(lost);
    for thread in waiting {
        let error = id(thread).expect_err("unknown");
        assert!(error.is_lost(), "{error}");
        let cause = std::error::Error::source(&error).map(ToString::to_string);
        assert_eq!(cause.as_deref(), Some("the cause"));
    }
    assert!(calls.statements.is_empty(), "nothing is repeated");
    running.remove(0).store();
}

#[test]
fn a_call_in_line_gives_up_at_its_deadline_and_its_job_is_not_stored() {
    let calls = Calls::new();
    let (_first, mut running) = calls.busy();
    let late = calls.call(10, Duration::from_millis(1));
    let error = id(late).expect_err("late");
    let is_late = error.is_unavailable() && error.to_string().contains("within 1ms");
    assert!(is_late, "{error}");
    let next = calls.call(11, LONG);
    running.remove(0).store();
    let statement = calls.statement();
    assert_eq!(statement.payloads(), ["11"]);
    statement.store();
    stored([(11, next)]);
    running.remove(0).store();
}

#[test]
fn a_call_whose_job_another_one_sends_says_at_its_deadline_that_it_may_be_stored() {
    let calls = Calls::new();
    // The call is no longer in line, and nobody has answered it.
    let (_answer, waits) = bounded(1);
    let (now, second) = (Instant::now(), Duration::from_secs(1));
    let ended = calls.coalescer.wait("orders", 1, &waits, now, second);
    let error = ended.map(drop).expect_err("late");
    // The caller says that the job may be stored.
    assert!(error.is_lost(), "{error}");
}

#[test]
fn a_panic_frees_the_place_and_answers_the_calls_behind_it() {
    let calls = Calls::new();
    let (_first, mut running) = calls.busy();
    let [head, last] = [10, 11].map(|n| calls.call(n, LONG));
    running.remove(0).store();
    // The last call panics when its statement is dropped without an answer.
    drop(calls.statement());
    assert!(last.join().is_err());
    let error = id(head).expect_err("no answer");
    let message = "could not enqueue into queue `orders`: the call that stored the job panicked";
    assert_eq!(error.to_string(), message);
    let next = calls.call(12, LONG);
    calls.statement().store();
    stored([(12, next)]);
    running.remove(0).store();
}
