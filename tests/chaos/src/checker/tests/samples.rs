//! Records of correct histories of jobs.
//!
//! A job is enqueued at 0, claimed at 10 and ended at 30, with a lease of a second.

use std::sync::Arc;

use uuid::Uuid;

use crate::checker::{Records, Terms};
use crate::db_trace::{Change, FinalRow, Place, Renewal, RowChange, Tick, TickOutcome};
use crate::facts::Facts;
use crate::history::{
    ClientEvent, HandlerEvent, HistoryLine, InBatch, JobSelection, LiveChange, Operation, Phase,
};
use crate::role::WINDOW;

/// Histories, each made from another one.
macro_rules! lives {
    ($($(#[$doc:meta])* $name:ident from $from:ident |$records:ident| $change:block)+) => {
        $($(#[$doc])*
        pub(crate) fn $name() -> Records {
            let mut $records = $from();
            $change
            $records
        })+
    };
}

pub(crate) const JOB: i64 = 7;
/// Another job.
pub(crate) const OTHER: i64 = JOB + 1;
pub(crate) const SECOND: i64 = 1_000_000;
/// When the second attempt of [`claimed_again`] is claimed.
const AGAIN: i64 = 200_031;

/// Reads row changes, one a line: the transaction, the time, the place with `+` for a row that comes, `-` for one that
/// goes, `~` for another content and `*` for another state, and what differs from the usual.
pub(crate) fn rows(text: &str) -> Vec<RowChange> {
    text.split(['\n', ';'])
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .map(row)
        .collect()
}

fn row(line: &str) -> RowChange {
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |at: usize| words[at].parse().expect(line);
    let (tx, at): (i64, i64) = (number(0), number(1));
    let place = match &words[2][..1] {
        "r" => Place::Ready,
        "d" => Place::Delayed,
        "l" => Place::Leased,
        _ => Place::Letter,
    };
    let change = match &words[2][1..] {
        "+" => Change::In,
        "-" => Change::Out,
        "~" => Change::Edited,
        _ => Change::Updated,
    };
    let mut row = RowChange {
        seq: at * 10 + i64::from(change == Change::In),
        at,
        began: at,
        committed: at,
        tx,
        process: Arc::from("worker-1.1"),
        job: JOB,
        place,
        change,
        attempt: 0,
        max_attempts: 4,
        generation: 0,
        crashes: 0,
        refunds: 0,
        lease: (place == Place::Leased).then(|| Uuid::from_u128(1)),
        worker: Some(Uuid::from_u128(9)),
        state: None,
        cause: None,
        key: None,
        unique_key: None,
        due: None,
        ready_at: None,
        is_partial: false,
        is_waiting: false,
        is_archived: false,
        facts: (change != Change::Out).then(|| Arc::new(facts())),
    };
    change_row(&mut row, &words[3..].join(" "));
    row
}

fn facts() -> Facts {
    Facts {
        queue: Arc::from("chaos"),
        kind: Arc::from("work"),
        priority: 3,
        payload: Arc::from(r#"{"key": 70}"#),
        headers: Some(Arc::from(r#"{"a": "b"}"#)),
        group_key: Some(Arc::from("g")),
        ..Facts::default()
    }
}

/// Changes a row: `name=value`, separated by spaces. A text without a value is missing.
pub(crate) fn change_row(row: &mut RowChange, text: &str) {
    for word in text.split_whitespace() {
        let (name, value) = word.split_once('=').expect(word);
        let number = || value.parse::<i64>().expect(word);
        let small = || value.parse::<i32>().expect(word);
        let text: Option<Arc<str>> = (!value.is_empty()).then(|| Arc::from(value));
        match name {
            "by" => row.process = Arc::from(value),
            "tx" => row.tx = number(),
            "at" => (row.at, row.began) = (number(), number()),
            "seq" => row.seq = number(),
            "job" => row.job = number(),
            "key" => row.key = Some(number()),
            "due" => row.due = Some(number()),
            "ready" => row.ready_at = Some(number()),
            "committed" => row.committed = number(),
            "attempt" => row.attempt = small(),
            "max" => row.max_attempts = small(),
            "generation" => row.generation = small(),
            "crashes" => row.crashes = small(),
            "lease" => row.lease = Some(Uuid::from_u128(number().unsigned_abs().into())),
            "state" => row.state = text,
            "cause" => row.cause = text,
            "unique" => {
                row.unique_key.clone_from(&text);
                if row.facts.is_some() {
                    facts_of(row).unique_key = text;
                }
            }
            "priority" => facts_of(row).priority = small(),
            "enqueued" => facts_of(row).enqueued = number(),
            "kind" => facts_of(row).kind = Arc::from(value),
            "queue" => facts_of(row).queue = Arc::from(value),
            "payload" => facts_of(row).payload = Arc::from(value),
            "headers" => facts_of(row).headers = text,
            "group" => facts_of(row).group_key = text,
            "error" => facts_of(row).error = text,
            "class" => facts_of(row).class = text,
            "position" => facts_of(row).position = text,
            // The history after the first attempt ended like this, or the text of another one.
            "history" => {
                facts_of(row).history = text.map(|outcome| match outcome.starts_with('[') {
                    true => outcome,
                    false => Arc::from(history(&outcome)),
                });
            }
            _ => panic!("{word}"),
        }
    }
}

fn facts_of(row: &mut RowChange) -> &mut Facts {
    Arc::make_mut(row.facts.as_mut().expect("the row has a content"))
}

/// A process, and the number of its operation.
type Op = (&'static str, u64);

impl Records {
    /// Changes some rows of the trace.
    pub(crate) fn set(&mut self, rows: impl IntoIterator<Item = usize>, text: &str) {
        for at in rows {
            change_row(&mut self.trace[at], text);
        }
    }

    /// Changes what the job carries, in its rows from this one on that have a content.
    pub(crate) fn carry(&mut self, from: usize, text: &str) {
        for row in self.trace[from..]
            .iter_mut()
            .filter(|row| row.facts.is_some())
        {
            change_row(row, text);
        }
    }

    /// Adds rows to the trace.
    pub(crate) fn add(&mut self, text: &str) {
        self.trace.extend(rows(text));
    }

    /// Where a job is at the end.
    fn ends(&mut self, job: i64, place: Place) {
        self.final_rows.push(FinalRow { job, place });
    }

    /// Adds an operation of a process.
    pub(crate) fn ask(
        &mut self,
        (process, op): Op,
        operation: Operation,
        at: i64,
        keys: &[i64],
        ids: &[i64],
    ) {
        let (keys, ids) = (keys.to_vec(), ids.to_vec());
        let event = ClientEvent::Invoked {
            operation,
            keys,
            ids,
        };
        self.history.push(line(process, op, at, event));
    }

    /// Adds the answer to an operation.
    pub(crate) fn answer(&mut self, (process, op): Op, at: i64, ids: &[i64]) {
        let event = ClientEvent::Ok { ids: ids.to_vec() };
        self.history.push(line(process, op, at, event));
    }

    /// An operator cancels the job at this time, while it runs.
    pub(crate) fn cancel_running(&mut self, at: i64) {
        self.ask((CLIENT, 6), Operation::Cancel, at, &[], &[JOB]);
        self.answer((CLIENT, 6), at + 1, &[-JOB]);
    }

    /// Changes how many jobs the batches of some events have.
    pub(crate) fn set_jobs(&mut self, events: std::ops::Range<usize>, jobs: usize) {
        for event in &mut self.handlers[events] {
            event.batch.as_mut().expect("an event of a batch").jobs = jobs;
        }
    }
}

pub(crate) fn history(outcome: &str) -> String {
    format!(
        r#"[{{"generation":0,"attempt":1,"outcome":"{outcome}","error_class":"Bad","error_message":"no"}}]"#
    )
}

pub(crate) fn handled(at: i64, phase: Phase) -> HandlerEvent {
    HandlerEvent {
        at,
        process: "worker-1.1".to_owned(),
        job: JOB,
        generation: 0,
        attempt: 1,
        call: 0,
        is_transactional: false,
        phase,
        checkpoint: None,
        batch: None,
        error: (phase != Phase::Begin).then(|| "no".to_owned()),
        class: (phase != Phase::Begin).then(|| "Bad".to_owned()),
    }
}

pub(crate) fn line(process: &str, op: u64, at: i64, event: ClientEvent) -> HistoryLine {
    let process = process.to_owned();
    HistoryLine {
        at,
        process,
        op,
        event,
    }
}

pub(crate) const CLIENT: &str = "enqueuer-1.1";

/// The job succeeds.
pub(crate) fn succeeded() -> Records {
    let mut records = Records {
        trace: rows(
            "1 0 r+ by=enqueuer-1.1 key=70
             2 10 r-
             2 10 l+ attempt=1
             3 30 l- attempt=1",
        ),
        renewals: vec![Renewal {
            at: 7,
            began: 5,
            worker: Uuid::from_u128(9),
            process: Arc::from("worker-1.1"),
            queue: Arc::from("chaos"),
        }],
        handlers: vec![handled(15, Phase::Begin), handled(25, Phase::Done)],
        terms: Terms {
            lease: SECOND,
            max_crashes: 3,
            max_refunds: 10,
            is_calm: true,
            ..Terms::default()
        },
        ..Records::default()
    };
    records.ask((CLIENT, 1), Operation::Enqueue, -1, &[70], &[]);
    records.answer((CLIENT, 1), 1, &[JOB]);
    records
}

lives! {
    /// Its handler fails, and it is ready for the second attempt.
    retried from succeeded |records| {
        records.handlers[1].phase = Phase::Retry;
        records.add("3 31 d+ attempt=1 due=150031 history=failed
             4 150036 d- attempt=1 due=150031
             4 150036 r+ attempt=1 history=failed");
        records.ends(JOB, Place::Ready);
    }
}

const LETTER: &str = "attempt=1 state=open cause=rejected error=no class=Bad history=[]";

lives! {
    /// Its handler rejects it.
    rejected from succeeded |records| {
        records.handlers[1].phase = Phase::Reject;
        records.add(&format!("3 31 x+ {LETTER}"));
        records.ends(JOB, Place::Letter);
    }

    /// It is cancelled while leased, and its worker releases it without an attempt.
    cancelled from rejected |records| {
        records.handlers.clear();
        records.set([4], "attempt=0 cause=manual error= class=");
        records.ask((CLIENT, 1), Operation::Cancel, 12, &[], &[JOB]);
    }

    /// It is cancelled while leased, and the transaction of its handler cannot begin.
    cancelled_before_it_began from cancelled |records| {
        records.set([4], "attempt=1");
        records.terms.is_calm = false;
    }

    /// It has a unique key, and its end commits so slowly that another enqueue still sees it live.
    slowly_committed from succeeded |records| {
        records.set(0..4, "unique=k");
        records.set([3], "committed=900000");
        records.ask((CLIENT, 2), Operation::Enqueue, 800_000, &[71], &[]);
        records.answer((CLIENT, 2), 800_001, &[-JOB]);
    }
}

/// Another worker reaps its lease at this time.
pub(crate) fn reaped_at(at: i64) -> Records {
    let mut records = succeeded();
    records.handlers.pop();
    records.set([3], &format!("at={at} by=worker-2.1"));
    records.add(&format!(
        "3 {at} r+ by=worker-2.1 crashes=1 history=worker_lost"
    ));
    records.ends(JOB, Place::Ready);
    records
}

pub(crate) fn reaped() -> Records {
    reaped_at(1_000_006)
}

lives! {
    /// Another worker reaps its lease, and the first one claims it again.
    claimed_by_the_lost_worker from reaped |records| {
        records.final_rows[0].place = Place::Leased;
        records.add("9 1000120 r- crashes=1; 9 1000120 l+ crashes=1 attempt=1 lease=2 history=worker_lost");
    }
}

/// The same, where attempts begin at these times under faults.
pub(crate) fn begun_at(at: &[i64]) -> Records {
    let mut records = claimed_by_the_lost_worker();
    records.terms.is_calm = false;
    records.handlers = at.iter().map(|at| handled(*at, Phase::Begin)).collect();
    records
}

lives! {
    /// The reap is slow, and the worker renews after the statement began.
    slowly_reaped from reaped |records| {
        for change in &mut records.trace[3..] {
            change.at += 900_000;
        }
        let (at, began) = (1_000_106, 1_000_100);
        records.renewals.push(Renewal {
            at,
            began,
            ..records.renewals[0].clone()
        });
    }

    /// Its letter is redriven.
    redriven from rejected |records| {
        records.add(&format!("9 50 x* {LETTER} state=redriving\n9 50 r+ generation=1" ));
        records.ends(JOB, Place::Ready);
    }

    /// An operator edits its letter, and it is redriven.
    edited from redriven |records| {
        records
            .trace
            .splice(5..5, rows(&format!("8 40 x~ by=enqueuer-1.1 {LETTER}")));
        records.set(5..8, r#"payload={"key":70,"edited":true}"#);
        records.ask((CLIENT, 5), Operation::Edit, 39, &[], &[]);
        records.answer((CLIENT, 5), 41, &[]);
    }

    /// An operator changes its priority while it is delayed.
    reordered from retried |records| {
        let change = "8 40 d~ by=enqueuer-1.1 attempt=1 due=150031 history=failed";
        records.trace.splice(5..5, rows(change));
        records.set([5, 7], "priority=9");
        records.ask((CLIENT, 5), Operation::Priority, 39, &[], &[]);
        records.answer((CLIENT, 5), 41, &[]);
    }

    /// It dies for the third time, so that only force redrives it.
    quarantined from redriven |records| {
        records.set([4], "state=quarantined");
    }

    /// Its handler writes a checkpoint and fails.
    checkpointed from retried |records| {
        let checkpoint = Some(1);
        records.checkpoints = vec![HandlerEvent {
            checkpoint,
            ..handled(20, Phase::Checkpoint)
        }];
        records.trace.splice(3..3, rows("5 28 l~ attempt=1"));
        records.set([3, 5, 7], r#"headers={"a":"b","redrive-checkpoint":"1"}"#);
    }

    /// Its success stores a follow-up.
    followed_up from succeeded |records| {
        records.set([0, 2], r#"payload={"key":70,"follow_ups":1}"#);
        records.add("3 31 r+ job=8 key=-560");
        records.ends(OTHER, Place::Ready);
    }

    /// It is claimed once more, after its retry was promoted.
    claimed_again from retried |records| {
        records.add("12 200031 r- attempt=1; 12 200031 l+ attempt=2 lease=2 history=failed");
        records.final_rows[0].place = Place::Leased;
    }

    /// A letter of the position 3 is captured.
    captured from succeeded |records| {
        records.handlers.clear();
        records.history.clear();
        records.trace = rows("3 31 x+ state=open cause=captured error=no position=3 history=[]");
        records.ask((CLIENT, 1), Operation::Capture, 30, &[3], &[]);
        records.answer((CLIENT, 1), 32, &[JOB]);
        records.ends(JOB, Place::Letter);
    }

    /// It is redriven and erased, and its position is captured again.
    captured_after_an_erasure from captured |records| {
        let letter = "state=redriving cause=captured error=no position=3 history=[]";
        records.add(&format!(
            "9 40 x* {letter}
                 9 40 r+ generation=1
                 10 50 r- generation=1
                 10 50 x- state=redriving
                 11 60 x+ job=8 {letter} state=open"
        ));
    }
}

pub(crate) fn tick(outcome: TickOutcome, at: i64, job: Option<i64>, ticks: i64) -> Tick {
    Tick {
        schedule: "chaos-schedule".to_owned(),
        outcome,
        tx: at,
        written: at,
        at,
        job,
        ticks,
    }
}

lives! {
    /// A schedule ticks, and then misses two ticks. Its job succeeds.
    ticked from succeeded |records| {
        records.history.clear();
        records.set([0], "key=0");
        records.ticks = vec![
            tick(TickOutcome::Fired, SECOND, Some(JOB), 1),
            tick(TickOutcome::Missed, 3 * SECOND, None, 2),
        ];
    }
}

/// When the delayed job of a bulk change is due.
pub(crate) const DUE: i64 = 5_000_000;

/// An operation selects a delayed job, which enters a place.
fn selected(change: LiveChange, place: Place, entered: &str) -> Records {
    let mut records = succeeded();
    records.handlers.clear();
    records.trace = rows(&format!(
        "1 0 d+ key=70 due=5000000
         2 40 d- due=5000000
         2 40 {entered}"
    ));
    records.set(0..3, "by=enqueuer-1.1");
    records.ends(JOB, place);
    records.ask((CLIENT, 2), Operation::ChangeJobs, 39, &[], &[]);
    let selection = JobSelection {
        change,
        queue: "chaos".to_owned(),
        kind: Some("work".to_owned()),
        least_priority: Some(3),
        limit: 1,
    };
    records
        .history
        .push(line(CLIENT, 2, 39, ClientEvent::Selects(selection)));
    records.answer((CLIENT, 2), 41, &[JOB]);
    records
}

pub(crate) fn run_now() -> Records {
    selected(LiveChange::RunNow, Place::Ready, "r+ ready=40")
}

pub(crate) fn reordered_in_bulk() -> Records {
    let change = LiveChange::Priority(5);
    selected(change, Place::Delayed, "d+ due=5000000 priority=5")
}

pub(crate) fn edited_in_bulk() -> Records {
    let entered = r#"d+ due=5000000 payload={"key":70,"edited":4}"#;
    selected(LiveChange::Edit(4), Place::Delayed, entered)
}

pub(crate) fn cancelled_in_bulk() -> Records {
    let entered = "x+ history=[] state=open cause=manual";
    selected(LiveChange::Cancel, Place::Letter, entered)
}

/// The filter of the operation that selects jobs.
pub(crate) fn selection(records: &mut Records) -> &mut JobSelection {
    let mut lines = records.history.iter_mut();
    let found = lines.find_map(|line| match &mut line.event {
        ClientEvent::Selects(selection) => Some(selection),
        _ => None,
    });
    found.expect("an operation selects jobs")
}

fn in_batch(event: HandlerEvent, number: u64, jobs: usize) -> HandlerEvent {
    let batch = Some(InBatch { number, jobs });
    HandlerEvent { batch, ..event }
}

lives! {
    /// A job of a batch succeeds. The other one fails, runs again alone, and succeeds.
    split from succeeded |records| {
        for mut row in claimed_again().trace {
            row.job = OTHER;
            row.key = row.key.map(|key| key + 1);
            records.trace.push(row);
        }
        records.add("13 200071 l- job=8 attempt=2 lease=2");
        records.history.clear();
        records.ask((CLIENT, 1), Operation::Enqueue, -1, &[70, 71], &[]);
        records.answer((CLIENT, 1), 1, &[JOB, OTHER]);
        let of_other = |at, phase, attempt| HandlerEvent {
            job: OTHER,
            attempt,
            ..handled(at, phase)
        };
        records.handlers = vec![
            in_batch(handled(15, Phase::Begin), 1, 2),
            in_batch(handled(25, Phase::Done), 1, 2),
            in_batch(of_other(15, Phase::Begin, 1), 1, 2),
            in_batch(of_other(25, Phase::Retry, 1), 1, 2),
            in_batch(of_other(AGAIN + 10, Phase::Begin, 2), 2, 1),
            in_batch(of_other(AGAIN + 20, Phase::Done, 2), 2, 1),
        ];
    }

    /// A job loses its worker, is claimed again, and runs alone.
    suspected from claimed_by_the_lost_worker |records| {
        let begin = in_batch(handled(1_000_130, Phase::Begin), 3, 1);
        records.handlers.push(begin);
    }

    /// A delayed job is replaced: the next enqueue of its key changes when it is due.
    replaced from succeeded |records| {
        records.handlers.clear();
        records.trace = rows(
            "1 0 d+ key=70 due=5000000 by=enqueuer-1.1 unique=r1
             2 40 d~ due=6000000 by=enqueuer-1.1 unique=r1",
        );
        records.ends(JOB, Place::Delayed);
        records.ask((CLIENT, 2), Operation::Replace, 39, &[71], &[]);
        records.answer((CLIENT, 2), 41, &[-JOB, JOB]);
    }
}

/// A job succeeds. Another one with its key is stored at this time.
fn stored_again(key: &str, at: i64, operation: Operation, asked: i64) -> Records {
    let mut records = succeeded();
    records.add(&format!("20 {at} r+ job=8 key=71 by=enqueuer-1.1"));
    records.set(0..5, &format!("unique={key}"));
    records.ends(OTHER, Place::Ready);
    records.ask((CLIENT, 2), operation, asked, &[71], &[]);
    records.answer((CLIENT, 2), at + 1, &[OTHER]);
    records
}

/// The window of its key ended before the key was enqueued again.
pub(crate) fn stored_after_window() -> Records {
    let window = i64::try_from(WINDOW.as_micros()).expect("a short time");
    stored_again("w1", window, Operation::EnqueueInWindow, window)
}

/// Its key is enqueued again while it runs, which its header allows.
pub(crate) fn stored_after_start() -> Records {
    let mut records = stored_again("s1", 20, Operation::Enqueue, 19);
    records.set([0, 2], r#"headers={"redrive-unique-until":"started"}"#);
    records
}

lives! {
    /// Its only attempt would begin after it expired.
    expired from rejected |records| {
        records.handlers.clear();
        records.carry(0, r#"headers={"redrive-expires-in-ms":"1"}"#);
        records.set(3..5, "at=1100");
        records.set([4], "attempt=0 cause=expired error=");
    }

    /// A worker raises it after two seconds.
    raised from succeeded |records| {
        records.handlers.clear();
        records.trace.truncate(1);
        let headers = r#"{"a":"b","redrive-priority":"3"}"#;
        records.add(&format!("2 2000000 r-\n2 2000000 r+ priority=20 headers={headers}" ));
        records.ends(JOB, Place::Ready);
    }

    /// No worker handles its kind.
    unhandled from rejected |records| {
        records.handlers.clear();
        records.trace.drain(2..4);
        records.carry(0, "kind=nobody");
        records.set([1, 2], "tx=2 at=1000000");
        records.set([2], "attempt=0 cause=unhandled error=");
    }

    /// Its payload and its error have a secret.
    redacted from rejected |records| {
        records.terms.redacts = true;
        records.handlers[1].error = Some("with-secret-70".to_owned());
        records.carry(0, r#"payload={"key":70,"secret":"secret-70"}"#);
        records.set([4], r#"payload={"key":70,"secret":"[redacted]"} error=with-[redacted]"#);
    }

    /// A client erases it while it waits.
    erased from succeeded |records| {
        records.handlers.clear();
        records.trace.truncate(2);
        records.set([1], "by=enqueuer-1.1");
        records.ask((CLIENT, 9), Operation::Erase, 5, &[], &[]);
    }

    /// Its group has no token, so that the transaction of the claim returns the job until its group may have one.
    put_off from succeeded |records| {
        records.trace.truncate(3);
        records.handlers.clear();
        records.add("2 10 l- attempt=1 seq=102; 2 10 d+ due=400000 seq=103; 4 400005 d- due=400000; 4 400005 r+");
        records.ends(JOB, Place::Ready);
    }

    /// A transactional handler of a lost job ends after a job with the same id has begun.
    ended_after_its_successor_began from succeeded |records| {
        for (at, phase) in [(-2 * SECOND, Phase::Begin), (25, Phase::Done)] {
            records.handlers.push(HandlerEvent {
                call: 1,
                is_transactional: true,
                ..handled(at, phase)
            });
        }
        records.handlers.sort_by_key(|event| event.at);
        records.terms.is_calm = false;
        records.terms.lossy_windows = vec![(-3 * SECOND, -5 * SECOND / 2)];
    }

    /// An attempt under a lost lease meets an outage, and the one under the next lease succeeds.
    judged_by_the_next_lease from claimed_by_the_lost_worker |records| {
        let event = |at, phase, call| HandlerEvent {
            call,
            ..handled(at, phase)
        };
        records.handlers = vec![
            event(1_000_130, Phase::Begin, 1),
            event(1_000_131, Phase::Outage, 1),
            event(1_000_132, Phase::Begin, 2),
            event(1_000_133, Phase::Done, 2),
        ];
        records.add("10 1000140 l- crashes=1 attempt=1 lease=2");
        records.final_rows.clear();
        records.terms.is_calm = false;
    }
}
