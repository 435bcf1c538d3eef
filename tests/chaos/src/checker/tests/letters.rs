//! Records of correct histories of letters, policies, breakers, pauses and rate limits.

use std::sync::Arc;

use uuid::Uuid;

use super::samples::{JOB, SECOND, change_row, handled, line, rows, succeeded};
use crate::checker::{Records, Terms};
use crate::db_trace::{
    BreakerRow, Change, LeftLetter, LetterCounts, LetterRow, LetterTable, PauseChange, PolicyTick,
    RateLimit, Renewal, RowUpdate, RunOrigin,
};
use crate::history::{ClientEvent, HandlerEvent, Operation, Phase};
use crate::role::gateway::NO_ANSWER;
use crate::role::operator::reason_of;

pub(super) const OPERATOR: &str = "operator-1.1";
/// The worker that probes, and the one that does not.
pub(super) const PROBER: Uuid = Uuid::from_u128(9);
pub(super) const STRANGER: Uuid = Uuid::from_u128(10);

const SENT: &[&str] = &["state", "changed_at", "events"];
const DIED: &[&str] = &[
    "state",
    "generation",
    "died_at",
    "changed_at",
    "deaths",
    "events",
];
const CLOSED: &[&str] = &[
    "state",
    "changed_at",
    "events",
    "audit_id",
    "discard_reason",
];

/// A row of the letter at a time, after its first death.
fn row(tx: i64, at: i64, change: Change, state: &str) -> LetterRow {
    LetterRow {
        at: at + 2,
        began: at,
        tx,
        process: Arc::from(OPERATOR),
        letter: 7,
        table: LetterTable::Letters,
        change,
        columns: Vec::new(),
        state: Arc::from(state),
        cause: Arc::from("rejected"),
        class: Arc::from("Rejected"),
        message: Arc::from("no"),
        counts: LetterCounts {
            attempts: 2,
            deaths: 1,
            seen: 1,
            ..LetterCounts::default()
        },
        group: 1,
        policy: None,
        run: None,
        changed_at: at + 1,
        died_at: at + 1,
        content: Arc::from("content"),
        has_secret: false,
    }
}

fn died() -> LetterRow {
    row(1, 10, Change::In, "open")
}

/// The next change of the letter.
fn updated(before: &LetterRow, tx: i64, at: i64, state: &str, columns: &[&str]) -> LetterRow {
    LetterRow {
        columns: columns.iter().map(|column| (*column).to_owned()).collect(),
        counts: before.counts,
        cause: Arc::clone(&before.cause),
        class: Arc::clone(&before.class),
        policy: before.policy,
        died_at: before.died_at,
        ..row(tx, at, Change::Updated, state)
    }
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

/// Its row is deleted.
fn deleted_at(before: &LetterRow, tx: i64, at: i64) -> LetterRow {
    LetterRow {
        change: Change::Out,
        began: at,
        at: at + 2,
        tx,
        columns: Vec::new(),
        ..before.clone()
    }
}

fn records(letters: Vec<LetterRow>) -> Records {
    let redacts = true;
    let terms = Terms {
        redacts,
        ..Terms::default()
    };
    Records {
        letters,
        terms,
        ..Records::default()
    }
}

/// The same, where the operator asked for an operation all the time.
fn asked(letters: Vec<LetterRow>, operation: Operation) -> Records {
    let mut records = records(letters);
    records.ask((OPERATOR, 1), operation, 0, &[], &[]);
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
    let (cause, class) = (Arc::from("manual"), Arc::from("cancelled"));
    let died = LetterRow {
        cause,
        class,
        ..died()
    };
    let audited = updated(&died, 1, 10, "open", &["audit_id"]);
    records(vec![died, audited])
}

pub(super) fn edited_letter() -> Records {
    let columns = ["edits", "payload", "changed_at", "events", "audit_id"];
    let mut edited = updated(&died(), 2, 20, "open", &columns);
    edited.counts.edits = 1;
    records(vec![died(), edited])
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
    let (died, table) = (died(), LetterTable::Archive);
    let discarded = updated(&died, 2, 20, "discarded", CLOSED);
    let gone = deleted_at(&discarded, 3, SECOND);
    let archived = LetterRow {
        table,
        change: Change::In,
        ..gone.clone()
    };
    let died_at = died.died_at;
    let back = LetterRow {
        died_at,
        ..row(4, 2 * SECOND, Change::In, "open")
    };
    let out = LetterRow {
        table,
        change: Change::Out,
        ..back.clone()
    };
    asked(
        vec![died, discarded, gone, archived, back, out],
        Operation::Retention,
    )
}

/// It recovers by a delivery, and is deleted two seconds later.
pub(super) fn deleted() -> Records {
    let delivered = updated(&died(), 2, 20, "recovered", SENT);
    let gone = deleted_at(&delivered, 3, 2 * SECOND);
    asked(vec![died(), delivered, gone], Operation::Retention)
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
    let columns = [SENT, &["policy_id"]].concat();
    let mut sent = updated(&died(), 2, SECOND, "redriving", &columns);
    sent.policy = Some(3);
    let mut records = records(vec![died(), sent]);
    let tick = PolicyTick {
        began: SECOND,
        tx: 2,
        process: Arc::from("worker-1.1"),
        policy: 3,
        due: SECOND - 5,
        next: 2 * SECOND - 5,
        letters: 1,
        error: None,
        left: Some(left(8)),
    };
    let later = PolicyTick {
        began: 2 * SECOND,
        tx: 3,
        due: tick.next,
        next: tick.next + SECOND,
        letters: 0,
        ..tick.clone()
    };
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

/// A fault cancels the second tick of a policy, and the next one follows.
pub(super) fn cancelled_tick() -> Records {
    let mut records = redriven_by_policy();
    records.policy_ticks[1].error = Some("canceling statement due to lock timeout".to_owned());
    let mut later = records.policy_ticks[1].clone();
    let (every, due) = (later.next - later.due, later.next);
    (later.began, later.due, later.next) = (due, due, due + every);
    records.policy_ticks.push(later);
    records
}

/// A worker settles a part of a lease, and an operator cancels a job of it.
pub(super) fn updated_rows() -> Records {
    let update = |process: &str, column: &str| RowUpdate {
        at: 10,
        process: Arc::from(process),
        relation: "leases".to_owned(),
        job: Some(7),
        changed: vec![column.to_owned()],
    };
    let mut records = asked(Vec::new(), Operation::Cancel);
    records.updates = vec![update("worker-1.1", "done"), update(OPERATOR, "cancelled")];
    records
}

/// A letter passes a validation, and the run sends it.
pub(super) fn sent_by_a_run() -> Records {
    let columns = [SENT, &["run_id", "run_ordinal"]].concat();
    let mut sent = updated(&died(), 2, 20, "redriving", &columns);
    let (by, reason) = (Arc::from(OPERATOR), Arc::from(reason_of(4)));
    sent.run = Some(RunOrigin { by, reason });
    let mut records = records(vec![died(), sent]);
    records.validated(&[7], &[8]);
    records
}

impl Records {
    /// Replaces the result of the validation.
    pub(crate) fn validated(&mut self, passed: &[i64], failed: &[i64]) {
        let (passed, failed) = (passed.to_vec(), failed.to_vec());
        let event = ClientEvent::Validated { passed, failed };
        self.history = vec![line(OPERATOR, 4, 15, event)];
    }
}

fn breaker(seconds: i64, state: &str, probes: i64) -> BreakerRow {
    let at = seconds * SECOND;
    BreakerRow {
        at,
        began: at - 1,
        committed: at + 1,
        process: Arc::from("worker-1.1"),
        name: Arc::from("gateway"),
        state: Arc::from(state),
        cause: Arc::from("outage"),
        kinds: vec!["dependent".to_owned()],
        outages: if seconds < 4 { 5 } else { 6 },
        openings: 1,
        probes,
        prober: (state == "half_open").then_some(PROBER),
        delay_ms: if seconds < 4 { 1000 } else { 2000 },
        probe_at: (state != "closed").then_some(at + SECOND),
    }
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
    for (attempt, at, phase) in [(1, 3 * SECOND, Phase::Outage), (2, 7 * SECOND, Phase::Done)] {
        let claim = format!(
            "{at} {} l+ kind=dependent attempt={attempt} lease={attempt}",
            at + 10
        );
        records.trace.extend(rows(&claim));
        for (at, phase) in [(at + 20, Phase::Begin), (at + 30, phase)] {
            let error = (phase == Phase::Outage).then(|| NO_ANSWER.to_owned());
            records.handlers.push(HandlerEvent {
                attempt,
                error,
                ..handled(at, phase)
            });
        }
    }
    for second in 1..9 {
        let at = second * SECOND;
        records
            .renewals
            .extend([PROBER, STRANGER].map(|worker| renewal(at, worker)));
    }
    records
}

fn renewal(at: i64, worker: Uuid) -> Renewal {
    Renewal {
        at,
        began: at - 1,
        worker,
        process: Arc::from("worker-1.1"),
        queue: Arc::from(crate::role::QUEUE),
    }
}

/// An operator opens a breaker.
pub(super) fn opened_by_hand() -> Records {
    let opened = BreakerRow {
        process: Arc::from(OPERATOR),
        cause: Arc::from("operator"),
        outages: 0,
        ..breaker(1, "open", 0)
    };
    let mut records = asked(Vec::new(), Operation::OpenBreaker);
    records.breakers = vec![opened];
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
    records.breakers.push(BreakerRow {
        cause: Arc::from("operator"),
        process: Arc::from(OPERATOR),
        ..breaker(3, "open", 0)
    });
    records.handlers.truncate(2);
    records.trace.truncate(1);
    for event in &mut records.handlers {
        event.at += later;
    }
    change_row(
        &mut records.trace[0],
        &format!("at={}", 3 * SECOND + 10 + later),
    );
    records
        .renewals
        .extend((1..20).map(|second| renewal(3 * SECOND - second, PROBER)));
    records
}

/// The queue is paused for ten seconds. The worker renews each second, and its job starts after six.
pub(super) fn started_in_pause() -> Records {
    let mut records = succeeded();
    records.renewals.extend((1..6).map(|second| Renewal {
        began: second * SECOND,
        ..renewal(second * SECOND, PROBER)
    }));
    records.pauses.push(PauseChange {
        at: 0,
        committed: 0,
        queue: Arc::from("chaos"),
        ends_at: 10 * SECOND,
    });
    records.handlers[0].at = 6 * SECOND;
    records
}

/// A limit of two starts per second and a burst of two, with this many attempts at once.
pub(super) fn limited(attempts: usize) -> Records {
    let mut records = succeeded();
    records.rate_limits.push(RateLimit {
        queue: "chaos".to_owned(),
        is_of_each_group: false,
        burst: 2.0,
        per_second: 2.0,
    });
    records.handlers = vec![handled(15, Phase::Begin); attempts];
    records
}

/// The jobs of two groups, each with a limit of two starts per second and a burst of two. Each group starts six jobs
/// at once, which are within the limit and what processes may log late.
pub(super) fn limited_groups() -> Records {
    let mut records = limited(6);
    records.rate_limits[0].is_of_each_group = true;
    for mut row in succeeded().trace {
        (row.job, row.key) = (JOB + 1, row.key.map(|key| key + 1));
        if row.facts.is_some() {
            change_row(&mut row, "group=other");
        }
        records.trace.push(row);
    }
    let job = JOB + 1;
    let start = HandlerEvent {
        job,
        ..handled(15, Phase::Begin)
    };
    records.handlers.extend(vec![start; 6]);
    records
}
