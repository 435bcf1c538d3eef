//! Records of correct histories of letters, policies and breakers.

use super::notation::with;
use super::samples::{SECOND, renewal};
use crate::checker::{Records, Terms};
use crate::db_trace::{
    BreakerRow, LeftLetter, LetterCounts, LetterRow, PolicyTick, Renewal, RowUpdate,
};
use crate::role::gateway::NO_ANSWER;

pub(super) const OPERATOR: &str = "operator-1.1";

const SENT: &str = "state,changed_at,events";
const DIED: &str = "state,generation,died_at,changed_at,deaths,events";
const CLOSED: &str = "state,changed_at,events,audit_id,discard_reason";

/// The letter after its first death.
fn died() -> LetterRow {
    let row = "tx=1 at=12 began=10 by=operator-1.1 letter=7 state=open group=1 changed_at=11 died_at=11 content=content";
    let error = "cause=rejected class=Rejected message=no attempts=2 deaths=1 seen=1";
    with(&with(&LetterRow::default(), row), error)
}

/// The next row of the letter.
fn next(before: &LetterRow, tx: i64, at: i64, changes: &str) -> LetterRow {
    let row = with(
        before,
        &format!("tx={tx} at={} began={at} columns=", at + 2),
    );
    with(&row, changes)
}

/// The next change of the letter.
fn updated(before: &LetterRow, tx: i64, at: i64, state: &str, columns: &str) -> LetterRow {
    let changed_at = at + 1;
    let changes = format!("change=u state={state} columns={columns} changed_at={changed_at}");
    next(before, tx, at, &changes)
}

/// Its job dies again, of the same error.
fn dies(before: &LetterRow, tx: i64, at: i64, state: &str) -> LetterRow {
    let counts = before.counts;
    LetterRow {
        died_at: at + 1,
        counts: LetterCounts {
            generation: counts.generation + 1,
            attempts: 1,
            earlier: counts.earlier + counts.attempts,
            deaths: counts.deaths + 1,
            alike: counts.alike + 1,
            failed: counts.failed + 1,
            ..counts
        },
        ..updated(before, tx, at, state, DIED)
    }
}

fn records(letters: Vec<LetterRow>) -> Records {
    Records {
        letters,
        ..Records::default()
    }
}

/// The same, where the operator asked for an operation all the time.
fn asked(letters: Vec<LetterRow>, operation: &str) -> Records {
    let mut records = records(letters);
    records.add(&format!("{operation} 1 0 by={OPERATOR}"));
    records
}

/// Its job dies, is sent back and dies again.
pub(super) fn died_again() -> Records {
    let sent = updated(&died(), 2, 20, "redriving", SENT);
    let again = dies(&sent, 3, 30, "open");
    records(vec![died(), sent, again])
}

/// Its waiting job is cancelled in bulk.
pub(super) fn audited() -> Records {
    let died = with(&died(), "cause=manual class=cancelled");
    let audited = updated(&died, 1, 10, "open", "audit_id");
    records(vec![died, audited])
}

pub(super) fn edited_letter() -> Records {
    let edited = updated(
        &died(),
        2,
        20,
        "open",
        "edits,payload,changed_at,events,audit_id",
    );
    records(vec![died(), with(&edited, "edits=1")])
}

/// Three redrives end in the same error, so that it is quarantined. It is discarded and reopened.
pub(super) fn reopened() -> Records {
    let mut records = died_again();
    for (at, state) in [(100, "open"), (200, "quarantined")] {
        let before = records.letters.last().expect("a row").clone();
        let sent = updated(&before, at, at, "redriving", SENT);
        let again = dies(&sent, at + 1, at + 10, state);
        records.letters.extend([sent, again]);
    }
    let discarded = updated(&records.letters[6], 900, 900, "discarded", CLOSED);
    let reopened = updated(&discarded, 901, 910, "quarantined", CLOSED);
    records.letters.extend([discarded, reopened]);
    records
}

/// It is discarded, and a second later it is archived and restored.
pub(super) fn restored() -> Records {
    let died = died();
    let discarded = updated(&died, 2, 20, "discarded", CLOSED);
    let gone = next(&discarded, 3, SECOND, "change=o");
    let archived = with(&gone, "table=a change=i");
    let back = next(&died, 4, 2 * SECOND, "changed_at=2000001");
    let out = with(&back, "table=a change=o");
    let rows = vec![died, discarded, gone, archived, back, out];
    asked(rows, "retention")
}

/// It recovers by a delivery, and is deleted two seconds later.
pub(super) fn deleted() -> Records {
    let delivered = updated(&died(), 2, 20, "recovered", SENT);
    let gone = next(&delivered, 3, 2 * SECOND, "change=o");
    asked(vec![died(), delivered, gone], "retention")
}

/// The oldest letter that a tick left.
pub(super) fn left(letter: i64) -> LeftLetter {
    LeftLetter {
        letter,
        version: 1,
        died_at: 12,
    }
}

/// A policy redrives it at its tick.
pub(super) fn redriven_by_policy() -> Records {
    let sent = updated(
        &died(),
        2,
        SECOND,
        "redriving",
        &format!("{SENT},policy_id"),
    );
    let mut records = records(vec![died(), with(&sent, "policy=3")]);
    let tick = PolicyTick {
        left: Some(left(8)),
        ..with(
            &PolicyTick::default(),
            "began=1000000 tx=2 by=worker-1.1 policy=3 due=999995 next=1999995 letters=1",
        )
    };
    let later = with(
        &tick,
        "began=2000000 tx=3 due=1999995 next=2999995 letters=0",
    );
    records.policy_ticks = vec![tick, later];
    records
}

/// The letter that the first tick left is redriven by the next one, which leaves another letter.
pub(super) fn redriven_by_two_ticks() -> Records {
    let mut records = redriven_by_policy();
    let mut other = records.letters.clone();
    for row in &mut other {
        (row.letter, row.died_at) = (8, 12);
    }
    other[1].tx = 3;
    records.letters.extend(other);
    (
        records.policy_ticks[1].letters,
        records.policy_ticks[1].left,
    ) = (1, Some(left(9)));
    records
}

/// A fault cancels the second tick of a policy, which is tried again.
pub(super) fn cancelled_tick() -> Records {
    let mut records = redriven_by_policy();
    let mut later = records.policy_ticks[1].clone();
    later.began += SECOND / 2;
    let cancelled = &mut records.policy_ticks[1];
    cancelled.error = Some("canceling statement due to lock timeout".to_owned());
    cancelled.next = cancelled.due;
    records.policy_ticks.push(later);
    records
}

/// A worker settles a part of a lease, and an operator cancels a job of it.
pub(super) fn updated_rows() -> Records {
    let update = |changes: &str| {
        let update = with(&RowUpdate::default(), "at=10 relation=leases job=7");
        with(&update, changes)
    };
    let mut records = asked(Vec::new(), "cancel");
    records.updates = vec![
        update("by=worker-1.1 changed=done"),
        update(&format!("by={OPERATOR} changed=cancelled")),
    ];
    records
}

fn breaker(seconds: i64, state: &str, probes: i64) -> BreakerRow {
    let at = seconds * SECOND;
    let (outages, delay) = if seconds < 4 { (5, 1000) } else { (6, 2000) };
    let (prober, probe_at) = match state {
        "half_open" => ("9", (at + SECOND).to_string()),
        "open" => ("", (at + SECOND).to_string()),
        _ => ("", String::new()),
    };
    let row = format!(
        "at={at} began={} committed={} by=worker-1.1 state={state} probes={probes}",
        at - 1,
        at + 1
    );
    let what = format!(
        "name=gateway cause=outage kinds=dependent outages={outages} openings=1 delay_ms={delay}"
    );
    let row = with(&with(&BreakerRow::default(), &row), &what);
    with(&row, &format!("prober={prober} probe_at={probe_at}"))
}

/// A breaker opens, a probe fails, and the next one closes it. Another worker renews.
pub(super) fn closed() -> Records {
    let mut records = Records {
        breakers: vec![
            breaker(1, "open", 0),
            breaker(3, "half_open", 1),
            breaker(4, "open", 1),
            breaker(7, "half_open", 2),
            breaker(8, "closed", 2),
        ],
        terms: Terms {
            lease: SECOND,
            is_calm: true,
            ..Terms::default()
        },
        ..Records::default()
    };
    records.add(
        "3000000 3000010 l+ kind=dependent attempt=1 lease=1
         begin 3000020; outage 3000030
         7000000 7000010 l+ kind=dependent attempt=2 lease=2
         begin 7000020 attempt=2; done 7000030 attempt=2",
    );
    records.handlers[1].error = Some(NO_ANSWER.to_owned());
    for second in 1..9 {
        let workers = ["9", "10"].map(|worker| renewed(second * SECOND, worker));
        records.renewals.extend(workers);
    }
    records
}

fn renewed(at: i64, worker: &str) -> Renewal {
    renewal(&format!("at={at} began={} worker={worker}", at - 1))
}

/// An operator opens a breaker.
pub(super) fn opened_by_hand() -> Records {
    let opened = format!("by={OPERATOR} cause=operator outages=0");
    let mut records = asked(Vec::new(), "open_breaker");
    records.breakers = vec![with(&breaker(1, "open", 0), &opened)];
    records
}

/// An operator opens the breaker again soon after a grant of the first probe, and the prober claims its job this much
/// later.
pub(super) fn probe_taken_back(later: i64) -> Records {
    let mut records = closed();
    // Before the grant, the breaker had been open for long.
    records.breakers[0].at -= 100 * SECOND;
    records.breakers[0].committed -= 100 * SECOND;
    records.breakers.truncate(2);
    let opened = format!("by={OPERATOR} cause=operator");
    records.breakers.push(with(&breaker(3, "open", 0), &opened));
    records.handlers.truncate(2);
    records.trace.truncate(1);
    for event in &mut records.handlers {
        event.at += later;
    }
    records.set([0], &format!("at={}", 3 * SECOND + 10 + later));
    let often = (1..20).map(|times| renewed(3 * SECOND - times, "9"));
    records.renewals.extend(often);
    records
}
