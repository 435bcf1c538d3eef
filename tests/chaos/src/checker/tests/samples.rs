//! Records of correct histories of jobs, letters, policies and breakers.
//!
//! A job is enqueued at 0, claimed at 10 and ended at 30, with a lease of a second.

use super::notation::{CLIENT, line, rows, with};
use crate::checker::{Records, Terms};
use crate::db_trace::{BreakerRow, LetterRow, PolicyTick, Renewal, Tick, TickOutcome};
use crate::history::{ClientEvent, InBatch, JobSelection, LiveChange, Phase};
use crate::role::gateway::NO_ANSWER;

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

    /// A schedule ticks, and then misses two ticks. Its job succeeds.
    ticked from succeeded(), |records| {
        records.history.clear();
        records.set([0], "key=0");
        records.ticks = vec![
            tick(TickOutcome::Fired, SECOND, Some(7), 1),
            tick(TickOutcome::Missed, 3 * SECOND, None, 2),
        ];
    }

    /// Another job succeeds in the same batch.
    in_batch from succeeded(), |records| {
        records.add(
            "1 0 r+ job=8 by=enqueuer-1.1 key=71
             2 10 r- job=8
             2 10 l+ job=8 attempt=1
             3 30 l- job=8 attempt=1
             begin 15 job=8; done 25 job=8
             enqueue 2 -1..1 keys=71 got=8",
        );
        for event in &mut records.handlers {
            event.batch = Some(InBatch { number: 1, jobs: 2 });
        }
    }

    /// Its only attempt would begin after it expired.
    expired from rejected(), |records| {
        records.handlers.clear();
        records.carry(0, r#"headers={"redrive-expires-in-ms":"1"}"#);
        records.set(3..5, "at=1100");
        records.set([4], "attempt=0 cause=expired error=");
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

    /// Another worker reaps its lease.
    reaped from succeeded(), |records| {
        records.handlers.pop();
        records.set([3], "at=1000006 by=worker-2.1");
        records.add("3 1000006 r+ by=worker-2.1 crashes=1 history=worker_lost");
    }

    /// Its worker claims it again, and two attempts begin.
    claimed_by_the_lost_worker from reaped(), |records| {
        records.terms.is_calm = false;
        records.handlers.clear();
        records.add(
            "9 1000120 r- crashes=1
             9 1000120 l+ crashes=1 attempt=1 lease=2 history=worker_lost
             begin 1000130; begin 1000131",
        );
    }

    /// It has a unique key, and its end commits so slowly that another enqueue still sees it live.
    slowly_committed from succeeded(), |records| {
        records.set(0..4, "unique_key=k");
        records.set([3], "committed=900000");
        records.add("enqueue 2 800000..800001 keys=71 got=-7");
    }

    /// The next enqueue of its key replaces a delayed job: it changes when the job is due.
    replaced from succeeded(), |records| {
        records.handlers.clear();
        records.trace.clear();
        records.add(
            "1 0 d+ key=70 due=5000000 by=enqueuer-1.1 unique_key=r1
             2 40 d~ due=6000000 by=enqueuer-1.1 unique_key=r1
             replace 2 39..41 keys=71 got=-7,7",
        );
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

    /// A client erases it while it waits.
    erased from succeeded(), |records| {
        records.handlers.clear();
        records.trace.truncate(2);
        records.set([1], "by=enqueuer-1.1");
        records.add("erase 9 5");
    }

    /// The job of a letter dies, is sent back and dies again, of the same error.
    died_again from Records::default(), |records| {
        let sent = updated(&died(), 2, 20, "redriving", SENT);
        let again = updated(&sent, 3, 30, "open", DIED);
        let counts = "generation=1 attempts=1 earlier=2 deaths=2 alike=1 failed=1";
        let again = with(&with(&again, counts), "died_at=31");
        records.letters = vec![died(), sent, again];
    }

    /// A policy redrives a letter at its tick.
    redriven_by_policy from Records::default(), |records| {
        let columns = format!("{SENT},policy_id");
        let sent = updated(&died(), 2, SECOND, "redriving", &columns);
        let tick = "began=1000000 tx=2 by=worker-1.1 policy=3 due=999995 next=1999995 letters=1";
        let tick = with(&PolicyTick::default(), tick);
        let later = "began=2000000 tx=3 due=1999995 next=2999995 letters=0";
        let later = with(&tick, later);
        records.letters = vec![died(), with(&sent, "policy=3")];
        records.policy_ticks = vec![tick, later];
    }

    /// A fault cancels its second tick.
    cancelled_tick from redriven_by_policy(), |records| {
        let tick = &mut records.policy_ticks[1];
        tick.error = Some("a lock timeout".to_owned());
        tick.next = tick.due;
    }

    /// The operation that cancels a waiting job is recorded.
    audited from Records::default(), |records| {
        let died = with(&died(), "cause=manual class=cancelled");
        let audited = updated(&died, 1, 10, "open", "audit_id");
        records.letters = vec![died, audited];
    }

    /// A letter is discarded and reopened.
    reopened from Records::default(), |records| {
        let discarded = updated(&died(), 2, 20, "discarded", CLOSED);
        let reopened = updated(&discarded, 3, 30, "open", CLOSED);
        records.letters = vec![died(), discarded, reopened];
    }

    /// A letter recovers by a delivery, and an operator applies the retention two seconds later.
    deleted from Records::default(), |records| {
        let delivered = updated(&died(), 2, 20, "recovered", SENT);
        let gone = with(&delivered, "tx=3 at=2000002 began=2000000 change=o columns=");
        records.letters = vec![died(), delivered, gone];
        records.add("retention 1 0 by=operator-1.1");
    }

    /// An operator opens a breaker.
    opened_by_hand from empty(), |records| {
        let opened = "at=1000000 by=operator-1.1 state=open cause=operator delay_ms=1000";
        records.breakers = vec![breaker(opened)];
        records.add("open_breaker 1 0 by=operator-1.1");
    }

    /// A breaker opens, a probe fails, and the next one closes it. Another worker renews.
    closed from empty(), |records| {
        records.breakers = [
            "at=1000000 state=open outages=5 delay_ms=1000 probe_at=2000000",
            "at=3000000 state=half_open probes=1 outages=5 delay_ms=1000 prober=9 probe_at=4000000",
            "at=4000000 state=open probes=1 outages=6 delay_ms=2000 probe_at=5000000",
            "at=7000000 state=half_open probes=2 outages=6 delay_ms=2000 prober=9 probe_at=8000000",
            "at=8000000 state=closed probes=2 outages=6 delay_ms=2000",
        ]
        .map(breaker)
        .to_vec();
        records.renewals.clear();
        records.add(
            "1 0 r+ kind=dependent
             3000000 3000010 r-
             3000000 3000010 l+ kind=dependent attempt=1
             begin 3000020; outage 3000030
             3000001 3000040 l- attempt=1
             3000001 3000041 r+ kind=dependent attempt=1
             7000000 7000010 r- attempt=1
             7000000 7000010 l+ kind=dependent attempt=2 lease=2
             begin 7000020 attempt=2; done 7000030 attempt=2",
        );
        records.handlers[1].error = Some(NO_ANSWER.to_owned());
        for second in 1..9 {
            let at = second * SECOND;
            let renewed = format!("at={at} began={}", at - 1);
            let workers = ["9", "10"].map(|worker| renewal(&format!("{renewed} worker={worker}")));
            records.renewals.extend(workers);
        }
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
    selected(LiveChange::Priority(5), "d+ due=5000000 priority=5")
}

pub(crate) fn edited_in_bulk() -> Records {
    let entered = r#"d+ due=5000000 payload={"key":70,"edited":4}"#;
    selected(LiveChange::Edit(4), entered)
}

pub(crate) fn cancelled_in_bulk() -> Records {
    selected(LiveChange::Cancel, "x+ history=[] state=open cause=manual")
}

/// The columns that change when a letter is sent back, when it is closed or reopened, and when its job dies again.
const SENT: &str = "state,changed_at,events";
const CLOSED: &str = "state,changed_at,events,audit_id,discard_reason";
const DIED: &str = "state,generation,died_at,changed_at,deaths,events";

/// The letter after its first death.
fn died() -> LetterRow {
    let row = "tx=1 at=12 began=10 by=operator-1.1 letter=7 state=open group=1 changed_at=11 died_at=11 content=content";
    let error = "cause=rejected class=Rejected message=no attempts=2 deaths=1 seen=1";
    with(&with(&LetterRow::default(), row), error)
}

/// The next change of the letter.
fn updated(before: &LetterRow, tx: i64, at: i64, state: &str, columns: &str) -> LetterRow {
    let row = format!("tx={tx} at={} began={at} changed_at={}", at + 2, at + 1);
    let row = with(before, &row);
    with(&row, &format!("change=u state={state} columns={columns}"))
}

/// A row of a breaker.
fn breaker(changes: &str) -> BreakerRow {
    let usual = "by=worker-1.1 name=gateway cause=outage kinds=dependent openings=1";
    let mut row = with(&with(&BreakerRow::default(), usual), changes);
    row.committed = row.at;
    row
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

/// The filter of the operation that selects jobs.
pub(crate) fn selection(records: &mut Records) -> &mut JobSelection {
    match &mut records.history[3].event {
        ClientEvent::Selects(selection) => selection,
        other => panic!("{other:?} selects no jobs"),
    }
}
