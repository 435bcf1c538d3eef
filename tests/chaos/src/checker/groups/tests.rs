//! Correct histories of a group have no violations, and each broken one violates a rule.

use std::collections::HashMap;
use std::sync::Arc;

use super::check;
use crate::checker::requests::Calls;
use crate::checker::tests::notation::{rows, with};
use crate::checker::{Findings, Records, Rule, Run};
use crate::db_trace::{SlotChange, Turn};
use crate::role::groups::{DIVERTED, FAIR, HELD, LIMITED, ORDERED};

const OPERATOR: &str = "operator-1.1";

/// What happens to each job of a story: the row changes of one transaction, or of several; and to the turn of the
/// first job, with the last of these transactions.
const ACTS: &[(&str, &str, Option<Turn>)] = &[
    ("enqueue", "r+", None),
    ("cancel", "r-", None),
    (
        "cancel-freeing",
        "r-; x+ state=open cause=manual",
        Some(Turn::Freed),
    ),
    ("lease", "r-; l+", None),
    ("start", "r-; l+", Some(Turn::Taken)),
    // It waits for a retry, which is due at once.
    ("retry", "l-; d+ | d-; r+", None),
    ("return", "l-; r+", None),
    ("end", "l-", None),
    ("done", "l-", Some(Turn::Freed)),
    ("die", "l-; x+ state=open cause=rejected", Some(Turn::Freed)),
    (
        "die-holding",
        "l-; x+ state=open cause=rejected",
        Some(Turn::Held),
    ),
    ("divert", "r-; x+ state=open cause=diverted attempt=0", None),
    (
        "divert-charged",
        "r-; x+ state=open cause=diverted attempt=1",
        None,
    ),
    ("redrive", "x* state=redriving; r+", None),
    ("discard", "x* state=discarded cause=closed", None),
    ("release", "", Some(Turn::Freed)),
    ("free", "", Some(Turn::Freed)),
];
/// What only happens to a turn, in the transaction before.
const TURNS: &[(&str, Turn)] = &[
    ("+taken", Turn::Taken),
    ("+held", Turn::Held),
    ("+freed", Turn::Freed),
];

/// Two jobs of a held group, of which the first one is dead.
const HOLDS: &str = "enqueue 1 2; start 1; die-holding 1;";
/// Three jobs of a group, of which the first one is dead and the others are diverted.
const DIVERTS: &str = "enqueue 1 2 3; start 1; die-holding 1; divert 2; divert 3;";
/// The first of these letters is redriven and succeeds, and the next one takes the turn.
const PASSES_ON: &str = "redrive 1; +taken 1; lease 1; done 1; +held 2;";
const THREE: &str = "enqueue 1 2 3;";

/// Returns the records of a story: acts with their jobs, one transaction per second. The rows of a transaction are
/// in no order.
fn story(queue: &str, text: &str) -> Records {
    let (mut records, mut now) = (Records::default(), 0);
    for step in text
        .split(';')
        .map(str::trim)
        .filter(|step| !step.is_empty())
    {
        let mut words = step.split(' ');
        let name = words.next().expect(step);
        let jobs: Vec<i64> = words.map(|job| job.parse().expect(step)).collect();
        if let Some((_, turn)) = TURNS.iter().find(|(of, _)| *of == name) {
            records.turns(queue, now, jobs[0], *turn);
            continue;
        }
        let act = ACTS.iter().find(|(of, ..)| *of == name);
        let (_, transactions, turn) = act.expect(step);
        for changes in transactions.split('|') {
            now += 1_000_000;
            for job in jobs.iter().rev() {
                for change in changes.split(';').filter(|change| !change.is_empty()) {
                    records.changes(queue, now, *job, change.trim());
                }
            }
        }
        if name == "release" {
            let (from, to, job) = (now - 1, now + 1, jobs[0]);
            records.add(&format!("release 1 {from}..{to} by={OPERATOR} got={job}"));
        }
        if let Some(turn) = turn {
            records.turns(queue, now, jobs[0], *turn);
        }
    }
    records
}

fn group(job: i64) -> &'static str {
    if job < 100 { "g" } else { "other" }
}

impl Records {
    fn next_seq(&self) -> i64 {
        i64::try_from(self.trace.len() + self.slots.len()).expect("a short story")
    }

    /// Adds a row change, such as `r+`; see [`rows`].
    fn changes(&mut self, queue: &str, now: i64, job: i64, what: &str) {
        let seq = self.next_seq();
        let row = rows(&format!("{now} {now} {what} job={job} seq={seq}")).remove(0);
        let of_group = match row.facts {
            Some(_) => format!("queue={queue} group={}", group(job)),
            None => String::new(),
        };
        let waits = format!("is_waiting={} {of_group}", what.starts_with('r'));
        self.trace.push(with(&row, &waits));
    }

    fn turns(&mut self, queue: &str, now: i64, job: i64, change: Turn) {
        self.slots.push(SlotChange {
            seq: self.next_seq(),
            at: now,
            tx: now,
            process: Arc::from(OPERATOR),
            job,
            queue: Arc::from(queue),
            group: Arc::from(group(job)),
            change,
        });
    }
}

fn rules(mut records: Records) -> Vec<Rule> {
    let mut findings = Findings::default();
    records.trace.sort_by_key(|change| (change.job, change.seq));
    let run = Run {
        records: &records,
        terms: &records.terms,
        jobs: HashMap::new(),
        attempts: HashMap::new(),
        calls: Calls::of(&records),
    };
    check(&run, &mut findings);
    let violations = findings.violations.iter();
    let mut rules: Vec<Rule> = violations.map(|violation| violation.rule).collect();
    rules.dedup();
    rules
}

macro_rules! stories {
    ($($what:literal: $queue:ident, $($text:expr),+ $(=> $rule:ident)?;)+) => {
        for (what, queue, text, broken) in [
            $(($what, $queue, [$($text),+].concat(), &[$(Rule::$rule)?][..])),+
        ] {
            let found = rules(story(queue, &text));
            assert!(broken.iter().all(|rule| found.contains(rule)), "{what}: {found:?}");
            assert_eq!(broken.is_empty(), found.is_empty(), "{what}: {found:?}");
        }
    };
}

#[test]
fn correct_histories_of_groups_have_no_violations() {
    stories! {
        "in order": ORDERED, "enqueue 1 2; start 1; retry 1; lease 1; done 1; start 2; done 2";
        // The claim of 2 cannot have seen 1, whose transaction was open.
        "a late commit": ORDERED, "enqueue 2; start 2; enqueue 1; done 2; start 1; done 1";
        "a death that holds nothing": ORDERED, "enqueue 1 2; start 1; die 1; start 2; done 2";
        "after a cancelled job": ORDERED, "enqueue 1 2; cancel 1; start 2; done 2";
        "after a cancelled job with the turn":
            HELD, "enqueue 1 2; start 1; retry 1; cancel-freeing 1; start 2; done 2";
        "held": HELD, HOLDS;
        "redriven first": HELD, HOLDS, "redrive 1; +taken 1; lease 1; done 1; start 2; done 2";
        "discarded": HELD, HOLDS, "discard 1; +freed 1; start 2; done 2";
        "released": HELD, HOLDS, "release 1; start 2; done 2";
        "diverted": DIVERTED, DIVERTS;
        "passed on": DIVERTED, DIVERTS, PASSES_ON;
        "redriven in order":
            DIVERTED, DIVERTS, PASSES_ON, "redrive 2; +taken 2; lease 2; done 2; +held 3";
        "released with diverted letters": DIVERTED, DIVERTS, "release 1; enqueue 4; start 4; done 4";
        "two at a time": LIMITED, THREE, "start 1; start 2; done 1; start 3; done 2; done 3";
        "followers": ORDERED, "enqueue 1 2 3 4; start 1 2 3; done 1; +taken 2; return 3; done 2;",
            "start 3 4; done 3; +taken 4; retry 4; lease 4; done 4";
        "a dead follower": HELD, THREE, "start 1 2 3; done 1; +taken 2; die-holding 2; return 3";
    }
}

#[test]
fn every_broken_history_of_a_group_violates_its_rule() {
    stories! {
        "two at once": ORDERED, "enqueue 1 2; start 1; start 2" => GroupOrder;
        "during a backoff": ORDERED, "enqueue 1 2; start 1; retry 1; start 2" => GroupOrder;
        "the second before the first": ORDERED, "enqueue 1 2; start 2; done 2" => GroupOrder;
        "three of two": LIMITED, THREE, "start 1; start 2; start 3" => GroupLimit;
        "behind a letter": HELD, HOLDS, "start 2" => GroupHold;
        "behind a letter that lost its turn": HELD, HOLDS, "free 1; start 2" => GroupHold;
        "behind a redriven letter": HELD, HOLDS, "redrive 1; +taken 1; start 2" => GroupOrder;
        "diverted behind nothing": DIVERTED, "enqueue 1; divert 1" => Diverted;
        "diverted with a charge":
            DIVERTED, "enqueue 1 2; start 1; die-holding 1; divert-charged 2" => Diverted;
        "before a diverted letter":
            DIVERTED, DIVERTS, PASSES_ON, "discard 2; +freed 2; enqueue 4; start 4" => Diverted;
        "without a turn": ORDERED, "enqueue 1 2; lease 1" => TurnOwned;
        "a turn that is left": ORDERED, "enqueue 1 2; start 1; end 1" => TurnOwned;
        "a letter with the turn of a job": HELD, HOLDS, "+taken 1" => TurnOwned;
        "a live job with the turn of a letter": HELD, HOLDS, "redrive 1; +held 1" => TurnOwned;
        "a follower before an earlier job": ORDERED, THREE, "start 1 3" => GroupOrder;
        "a follower of another claim": ORDERED, "enqueue 1 2; start 1; lease 2" => GroupOrder;
        "followers without a turn": ORDERED, "enqueue 1 2; start 1 2; done 1" => TurnOwned;
        "before followers that were leased earlier":
            HELD, THREE, "start 1 2; die-holding 1; release 1; start 3" => GroupOrder;
        "behind a dead follower":
            HELD, THREE, "start 1 2; done 1; +taken 2; die 2; start 3" => GroupHold;
    }
}

#[test]
fn a_diverted_group_without_letters_is_a_violation() {
    let mut left = story(DIVERTED, "enqueue 1; start 1; done 1");
    left.diverted_groups = vec![(DIVERTED.to_owned(), "g".to_owned())];
    assert_eq!(rules(left), [Rule::TurnOwned]);
}

#[test]
fn a_fair_group_that_waits_has_its_turn_before_another_one_has_many() {
    let jobs = |most: i64, each: &str| {
        let each = (1..=most).map(|job| format!("{each} {job};"));
        each.collect::<Vec<_>>().concat()
    };
    let found = |turns, last: &str| {
        let enqueued = jobs(21, "enqueue") + "enqueue 100;";
        rules(story(FAIR, &(enqueued + &jobs(turns, "lease") + last)))
    };
    assert_eq!(found(21, ""), [Rule::FairTurn], "it never had a turn");
    assert_eq!(found(20, "lease 100"), []);
    assert_eq!(found(21, "lease 100"), [Rule::FairTurn]);
}
