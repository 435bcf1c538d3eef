//! Letters that rules remove and policies redrive, and rows that no operation makes, each with one wrong fact.

use std::sync::Arc;

use super::letters::{OPERATOR, SECOND, ask, records, row, updated};
use super::{Case, check_cases, rules};
use crate::checker::{Records, Rule};
use crate::db_trace::Change;
use crate::db_trace::letters::{LetterRow, LetterTable};
use crate::db_trace::policies::{LeftLetter, PolicyTick};
use crate::db_trace::updates::RowUpdate;
use crate::history::Operation;

/// It is discarded, and a second later it is archived and restored.
fn restored() -> Records {
    let died = row(1, 10, Change::In, "open");
    let columns = [
        "state",
        "changed_at",
        "events",
        "audit_id",
        "discard_reason",
    ];
    let discarded = updated(&died, 2, 20, "discarded", &columns);
    let gone = LetterRow {
        change: Change::Out,
        began: SECOND,
        at: SECOND + 2,
        tx: 3,
        columns: Vec::new(),
        ..discarded.clone()
    };
    let archived = LetterRow {
        table: LetterTable::Archive,
        change: Change::In,
        ..gone.clone()
    };
    let back = LetterRow {
        died_at: died.died_at,
        ..row(4, 2 * SECOND, Change::In, "open")
    };
    let out = LetterRow {
        table: LetterTable::Archive,
        change: Change::Out,
        ..back.clone()
    };
    let mut records = records(vec![died, discarded, gone, archived, back, out]);
    ask(&mut records, Operation::Retention);
    records
}

/// It recovers by a delivery, and is deleted two seconds later.
fn deleted() -> Records {
    let died = row(1, 10, Change::In, "open");
    let delivered = updated(
        &died,
        2,
        20,
        "recovered",
        &["state", "changed_at", "events"],
    );
    let gone = LetterRow {
        change: Change::Out,
        began: 2 * SECOND,
        at: 2 * SECOND + 2,
        tx: 3,
        columns: Vec::new(),
        ..delivered.clone()
    };
    let mut records = records(vec![died, delivered, gone]);
    ask(&mut records, Operation::Retention);
    records
}

/// A policy redrives it at its tick.
fn redriven_by_policy() -> Records {
    let died = row(1, 10, Change::In, "open");
    let mut sent = updated(
        &died,
        2,
        SECOND,
        "redriving",
        &["state", "changed_at", "events", "policy_id"],
    );
    sent.policy = Some(3);
    let mut records = records(vec![died, sent]);
    let tick = PolicyTick {
        began: SECOND,
        tx: 2,
        process: Arc::from("worker-1.1"),
        policy: 3,
        due: SECOND - 5,
        next: 2 * SECOND - 5,
        letters: 1,
        error: None,
        // The next tick redrives it.
        left: Some(LeftLetter {
            letter: 8,
            version: 1,
            died_at: 12,
        }),
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
fn redriven_by_two_ticks() -> Records {
    let mut records = redriven_by_policy();
    let mut other = records.letters.clone();
    for row in &mut other {
        (row.letter, row.died_at) = (8, 12);
    }
    other[1].tx = 3;
    records.letters.extend(other);
    records.policy_ticks[1].letters = 1;
    records.policy_ticks[1].left = Some(LeftLetter {
        letter: 9,
        version: 1,
        died_at: 12,
    });
    records
}

/// A worker settles a part of a lease, and an operator cancels a job of it.
fn updated_rows() -> Records {
    let update = |process: &str, table: &str, column: &str| RowUpdate {
        at: 10,
        process: Arc::from(process),
        table: table.to_owned(),
        job: Some(7),
        columns: vec![column.to_owned()],
    };
    let mut records = Records {
        updates: vec![
            update("worker-1.1", "leases", "done"),
            update(OPERATOR, "leases", "cancelled"),
        ],
        ..Records::default()
    };
    ask(&mut records, Operation::Cancel);
    records
}

#[test]
fn correct_removals_and_ticks_have_no_violations() {
    for (what, life) in [
        ("restored", restored as fn() -> Records),
        ("deleted", deleted),
        ("redriven by a policy", redriven_by_policy),
        ("redriven by two ticks", redriven_by_two_ticks),
        ("updated", updated_rows),
    ] {
        assert_eq!(rules(&life()), [], "{what}");
    }
}

#[test]
fn every_update_that_no_operation_makes_violates_its_rule() {
    let cases: &[Case] = &[
        (
            "a lease with other jobs",
            updated_rows,
            |r| r.updates[0].columns = vec!["ids".to_owned()],
            Rule::Unpredicted,
        ),
        (
            "a lease that an operator settles",
            updated_rows,
            |r| r.updates[0].process = Arc::from(OPERATOR),
            Rule::Unpredicted,
        ),
        (
            "a job that is updated in place",
            updated_rows,
            |r| r.updates[0].table = "jobs".to_owned(),
            Rule::Unpredicted,
        ),
        (
            "a cancellation that nobody asked for",
            updated_rows,
            |r| r.history.clear(),
            Rule::Unpredicted,
        ),
        (
            "a unique key without a job",
            updated_rows,
            |r| r.leftovers.push("unique keys: 1".to_owned()),
            Rule::Leftover,
        ),
    ];
    check_cases(cases);
}

#[test]
fn every_wrong_removal_violates_retention() {
    let cases: &[Case] = &[
        (
            "archived too early",
            restored,
            |r| r.letters[2].began = 300_000,
            Rule::Retention,
        ),
        (
            "archived without a request",
            deleted,
            |r| r.history.clear(),
            Rule::Retention,
        ),
        (
            "deleted instead of archived",
            restored,
            |r| drop(r.letters.remove(3)),
            Rule::Retention,
        ),
        (
            "archived with another content",
            restored,
            |r| r.letters[3].content = Arc::from("other"),
            Rule::Retention,
        ),
        (
            "archived, but still a letter",
            restored,
            |r| drop(r.letters.remove(2)),
            Rule::Retention,
        ),
        (
            "restored, but still in the archive",
            restored,
            |r| drop(r.letters.pop()),
            Rule::Retention,
        ),
        (
            "restored with another content",
            restored,
            |r| r.letters[4].content = Arc::from("other"),
            Rule::Retention,
        ),
        (
            "lost by the archive",
            restored,
            |r| drop(r.letters.remove(4)),
            Rule::Retention,
        ),
        (
            "restored as another state",
            restored,
            |r| r.letters[4].state = Arc::from("quarantined"),
            Rule::LetterCounts,
        ),
        (
            "deleted too early",
            deleted,
            |r| r.letters[2].began = SECOND,
            Rule::Retention,
        ),
        (
            "an open letter deleted",
            deleted,
            |r| {
                r.letters.remove(1);
                r.letters[1].state = Arc::from("open");
            },
            Rule::Retention,
        ),
    ];
    check_cases(cases);
}

#[test]
fn a_fault_may_cancel_a_tick_of_a_policy() {
    let mut records = redriven_by_policy();
    records.policy_ticks[1].error = Some("canceling statement due to lock timeout".to_owned());
    records.terms.is_calm = false;
    assert_eq!(rules(&records), []);
    let mut later = records.policy_ticks[1].clone();
    let (every, due) = (later.next - later.due, later.next);
    (later.began, later.due, later.next) = (due, due, due + every);
    records.policy_ticks.push(later);
    assert_eq!(rules(&records), [], "the next one follows");
    records.terms.is_calm = true;
    assert!(rules(&records).contains(&Rule::PolicyTick), "no fault");
}

#[test]
fn a_tick_may_leave_an_older_letter_that_was_not_there_before() {
    let mut records = redriven_by_two_ticks();
    let older = LeftLetter {
        letter: 6,
        version: 1,
        died_at: 12,
    };
    records.policy_ticks[1].left = Some(older);
    assert_eq!(rules(&records), [], "the tick before did not leave it");
    let changed = LeftLetter {
        version: 2,
        ..older
    };
    records.policy_ticks[0].left = Some(changed);
    assert_eq!(rules(&records), [], "its row changed between the ticks");
}

#[test]
fn every_wrong_tick_of_a_policy_violates_its_rule() {
    let cases: &[Case] = &[
        (
            "a redrive without a tick",
            redriven_by_policy,
            |r| r.policy_ticks.clear(),
            Rule::PolicyTick,
        ),
        (
            "a tick that counts another number",
            redriven_by_policy,
            |r| r.policy_ticks[0].letters = 2,
            Rule::PolicyTick,
        ),
        (
            "an early tick",
            redriven_by_policy,
            |r| r.policy_ticks[0].began = SECOND - 6,
            Rule::PolicyTick,
        ),
        (
            "a tick that runs twice",
            redriven_by_policy,
            |r| r.policy_ticks[1].due -= SECOND,
            Rule::PolicyTick,
        ),
        (
            "a tick that moves the next one",
            redriven_by_policy,
            |r| r.policy_ticks[0].next += 1,
            Rule::PolicyTick,
        ),
        (
            "a tick of an operator",
            redriven_by_policy,
            |r| r.policy_ticks[0].process = Arc::from(OPERATOR),
            Rule::PolicyTick,
        ),
        (
            "a letter of an old generation",
            redriven_by_policy,
            |r| {
                for row in &mut r.letters {
                    row.counts.generation = 2;
                }
            },
            Rule::PolicyTick,
        ),
        (
            "a younger letter before an older one",
            redriven_by_two_ticks,
            |r| {
                let older = LeftLetter {
                    letter: 6,
                    version: 1,
                    died_at: 12,
                };
                for tick in &mut r.policy_ticks {
                    tick.left = Some(older);
                }
            },
            Rule::PolicyTick,
        ),
        (
            "more letters than a batch",
            redriven_by_policy,
            |r| {
                for id in [8, 9] {
                    let mut others = r.letters[..2].to_vec();
                    for row in &mut others {
                        row.letter = id;
                    }
                    r.letters.extend(others);
                }
                r.policy_ticks[0].letters = 3;
            },
            Rule::PolicyTick,
        ),
    ];
    check_cases(cases);
}
