//! Records of correct histories of jobs.
//!
//! A job is enqueued at 0, claimed at 10 and ended at 30, with a lease of a second.

use super::notation::{CLIENT, line, rows, with};
use crate::checker::{Records, Terms};
use crate::db_trace::{Renewal, Tick, TickOutcome};
use crate::history::{ClientEvent, InBatch, JobSelection, LiveChange, Phase};

/// Another job.
pub(crate) const OTHER: i64 = 8;
pub(crate) const SECOND: i64 = 1_000_000;
const LETTER: &str = "attempt=1 state=open cause=rejected error=no class=Bad history=[]";

/// Histories, each made from another one.
macro_rules! lives {
    ($($(#[$doc:meta])* $name:ident from $from:expr, |$records:ident| $change:block)+) => {
        $($(#[$doc])*
        pub(crate) fn $name() -> Records {
            let mut $records = $from;
            $change
            $records
        })+
    };
}

pub(crate) fn renewal(changes: &str) -> Renewal {
    let usual = with(&Renewal::default(), "worker=9 by=worker-1.1 queue=chaos");
    with(&usual, changes)
}

fn empty() -> Records {
    let terms = Terms {
        lease: SECOND,
        max_crashes: 3,
        max_refunds: 10,
        is_calm: true,
        ..Terms::default()
    };
    Records {
        renewals: vec![renewal("at=7 began=5")],
        terms,
        ..Records::default()
    }
}

lives! {
    /// The job succeeds.
    succeeded from empty(), |records| {
        records.add(
            "1 0 r+ by=enqueuer-1.1 key=70
             2 10 r-
             2 10 l+ attempt=1
             3 30 l- attempt=1
             begin 15; done 25
             enqueue 1 -1..1 keys=70 got=7",
        );
    }

    /// Its handler fails, and it is ready for the second attempt.
    retried from succeeded(), |records| {
        records.handlers[1].phase = Phase::Retry;
        records.add(
            "3 31 d+ attempt=1 due=150031 history=failed
             4 150036 d- attempt=1 due=150031
             4 150036 r+ attempt=1 history=failed",
        );
    }

    /// Its handler rejects it.
    rejected from succeeded(), |records| {
        records.handlers[1].phase = Phase::Reject;
        records.add(&format!("3 31 x+ {LETTER}"));
    }

    /// It is cancelled while leased, and its worker releases it without an attempt.
    cancelled from rejected(), |records| {
        records.handlers.clear();
        records.set([4], "attempt=0 cause=manual error= class=");
        records.add("cancel 1 12 ids=7");
    }

    /// It is cancelled while leased, and the transaction of its handler cannot begin.
    cancelled_before_it_began from cancelled(), |records| {
        records.set([4], "attempt=1");
        records.terms.is_calm = false;
    }

    /// It has a unique key, and its end commits so slowly that another enqueue still sees it live.
    slowly_committed from succeeded(), |records| {
        records.set(0..4, "unique=k");
        records.set([3], "committed=900000");
        records.add("enqueue 2 800000..800001 keys=71 got=-7");
    }

    /// Another worker reaps its lease, and the first one claims it again.
    claimed_by_the_lost_worker from reaped(), |records| {
        records.add(
            "9 1000120 r- crashes=1
             9 1000120 l+ crashes=1 attempt=1 lease=2 history=worker_lost",
        );
    }

    /// Its letter is redriven.
    redriven from rejected(), |records| {
        records.add(&format!("9 50 x* {LETTER} state=redriving; 9 50 r+ generation=1"));
    }

    /// An operator edits its letter, and it is redriven.
    edited from redriven(), |records| {
        records.trace.splice(5..5, rows(&format!("8 40 x~ by=enqueuer-1.1 {LETTER}")));
        records.set(5..8, r#"payload={"key":70,"edited":true}"#);
        records.add("edit 5 39..41");
    }

    /// Its handler writes a checkpoint and fails.
    checkpointed from retried(), |records| {
        records.add("checkpoint 20 checkpoint=1");
        records.trace.splice(3..3, rows("5 28 l~ attempt=1"));
        records.set([3, 5, 7], r#"headers={"a":"b","redrive-checkpoint":"1"}"#);
    }

    /// Its success stores a follow-up.
    followed_up from succeeded(), |records| {
        records.set([0, 2], r#"payload={"key":70,"follow_ups":1}"#);
        records.add("3 31 r+ job=8 key=-560");
    }

    /// It is claimed once more, after its retry was promoted.
    claimed_again from retried(), |records| {
        records.add("12 200031 r- attempt=1; 12 200031 l+ attempt=2 lease=2 history=failed");
    }

    /// A letter of the position 3 is captured.
    captured from empty(), |records| {
        records.add(
            "3 31 x+ state=open cause=captured error=no position=3 history=[]
             capture 1 30..32 keys=3 got=7",
        );
    }

    /// It is redriven and erased, and its position is captured again.
    captured_after_an_erasure from captured(), |records| {
        let letter = "state=redriving cause=captured error=no position=3 history=[]";
        records.add(&format!(
            "9 40 x* {letter}
             9 40 r+ generation=1
             10 50 r- generation=1
             10 50 x- state=redriving
             11 60 x+ job=8 {letter} state=open"
        ));
    }

    /// A schedule ticks, and then misses two ticks. Its job succeeds.
    ticked from succeeded(), |records| {
        records.history.clear();
        records.set([0], "key=0");
        records.ticks = vec![
            tick(TickOutcome::Fired, SECOND, Some(7), 1),
            tick(TickOutcome::Missed, 3 * SECOND, None, 2),
        ];
    }

    /// A job of a batch succeeds. The other one fails, runs again alone, and succeeds.
    split from succeeded(), |records| {
        for row in claimed_again().trace {
            let key = row.key.map_or_else(String::new, |key| (key + 1).to_string());
            records.trace.push(with(&row, &format!("job=8 key={key}")));
        }
        records.history.clear();
        records.handlers.clear();
        records.add(
            "13 200071 l- job=8 attempt=2 lease=2
             enqueue 1 -1..1 keys=70,71 got=7,8
             begin 15; done 25
             begin 15 job=8; retry 25 job=8
             begin 200041 job=8 attempt=2; done 200051 job=8 attempt=2",
        );
        for (at, event) in (0..).zip(&mut records.handlers) {
            let (number, jobs) = if at < 4 { (1, 2) } else { (2, 1) };
            event.batch = Some(InBatch { number, jobs });
        }
    }

    /// A delayed job is replaced: the next enqueue of its key changes when it is due.
    replaced from succeeded(), |records| {
        records.handlers.clear();
        records.trace.clear();
        records.add(
            "1 0 d+ key=70 due=5000000 by=enqueuer-1.1 unique=r1
             2 40 d~ due=6000000 by=enqueuer-1.1 unique=r1
             replace 2 39..41 keys=71 got=-7,7",
        );
    }

    /// Its key is enqueued again while it runs, which its header allows.
    stored_after_start from succeeded(), |records| {
        records.add(
            "20 20 r+ job=8 key=71 by=enqueuer-1.1
             enqueue 2 19..21 keys=71 got=8",
        );
        records.set(0..5, "unique=s1");
        records.set([0, 2], r#"headers={"redrive-unique-until":"started"}"#);
    }

    /// Its only attempt would begin after it expired.
    expired from rejected(), |records| {
        records.handlers.clear();
        records.carry(0, r#"headers={"redrive-expires-in-ms":"1"}"#);
        records.set(3..5, "at=1100");
        records.set([4], "attempt=0 cause=expired error=");
    }

    /// A worker raises it after two seconds.
    raised from succeeded(), |records| {
        records.handlers.clear();
        records.trace.truncate(1);
        records.add(
            r#"2 2000000 r-
               2 2000000 r+ priority=20 headers={"a":"b","redrive-priority":"3"}"#,
        );
    }

    /// No worker handles its kind.
    unhandled from rejected(), |records| {
        records.handlers.clear();
        records.trace.drain(2..4);
        records.carry(0, "kind=nobody");
        records.set([1, 2], "tx=2 at=1000000");
        records.set([2], "attempt=0 cause=unhandled error=");
    }

    /// Its payload and its error have a secret.
    redacted from rejected(), |records| {
        records.terms.redacts = true;
        records.handlers[1].error = Some("with-secret-70".to_owned());
        records.carry(0, r#"payload={"key":70,"secret":"secret-70"}"#);
        records.set([4], r#"payload={"key":70,"secret":"[redacted]"} error=with-[redacted]"#);
    }

    /// A client erases it while it waits.
    erased from succeeded(), |records| {
        records.handlers.clear();
        records.trace.truncate(2);
        records.set([1], "by=enqueuer-1.1");
        records.add("erase 9 5");
    }

    /// Its group has no token, so that the transaction of the claim returns the job until its group may have one.
    put_off from succeeded(), |records| {
        records.trace.truncate(3);
        records.handlers.clear();
        records.add(
            "2 10 l- attempt=1 seq=102
             2 10 d+ due=400000 seq=103
             4 400005 d- due=400000
             4 400005 r+",
        );
    }

    /// A transactional handler of a lost job ends after a job with the same id has begun.
    ended_after_its_successor_began from succeeded(), |records| {
        records.handlers.clear();
        records.add(
            "begin -2000000 call=1 is_transactional=true
             begin 15
             done 25
             done 25 call=1 is_transactional=true",
        );
        records.terms.is_calm = false;
        records.terms.lossy_windows = vec![(-3 * SECOND, -5 * SECOND / 2)];
    }

    /// An attempt under a lost lease meets an outage, and the one under the next lease succeeds.
    judged_by_the_next_lease from claimed_by_the_lost_worker(), |records| {
        records.handlers.clear();
        records.add(
            "begin 1000130 call=1; outage 1000131 call=1
             begin 1000132 call=2; done 1000133 call=2
             10 1000140 l- crashes=1 attempt=1 lease=2",
        );
        records.terms.is_calm = false;
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
    records
}

pub(crate) fn reaped() -> Records {
    reaped_at(1_000_006)
}

/// The lost worker claims it again, and attempts begin at these times under faults.
pub(crate) fn begun_at(at: &[i64]) -> Records {
    let mut records = claimed_by_the_lost_worker();
    records.terms.is_calm = false;
    records.handlers.clear();
    for at in at {
        records.add(&format!("begin {at}"));
    }
    records
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

/// An operation selects a delayed job, which enters a place.
fn selected(change: LiveChange, entered: &str) -> Records {
    let mut records = succeeded();
    records.handlers.clear();
    records.trace.clear();
    records.add(&format!(
        "1 0 d+ key=70 due=5000000
         2 40 d- due=5000000
         2 40 {entered}
         change_jobs 2 39..41 got=7"
    ));
    records.set(0..3, "by=enqueuer-1.1");
    let selection = JobSelection {
        change,
        queue: "chaos".to_owned(),
        kind: Some("work".to_owned()),
        least_priority: Some(3),
        limit: 1,
    };
    let selects = line(CLIENT, 2, 39, ClientEvent::Selects(selection));
    records.history.insert(3, selects);
    records
}

pub(crate) fn run_now() -> Records {
    selected(LiveChange::RunNow, "r+ ready=40")
}

pub(crate) fn reordered_in_bulk() -> Records {
    selected(
        LiveChange::Priority(5),
        "d+ due=5000000 priority=5",
    )
}

pub(crate) fn edited_in_bulk() -> Records {
    let entered = r#"d+ due=5000000 payload={"key":70,"edited":4}"#;
    selected(LiveChange::Edit(4), entered)
}

pub(crate) fn cancelled_in_bulk() -> Records {
    let entered = "x+ history=[] state=open cause=manual";
    selected(LiveChange::Cancel, entered)
}

/// The filter of the operation that selects jobs.
pub(crate) fn selection(records: &mut Records) -> &mut JobSelection {
    match &mut records.history[3].event {
        ClientEvent::Selects(selection) => selection,
        other => panic!("{other:?} selects no jobs"),
    }
}
