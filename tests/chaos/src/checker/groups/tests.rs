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

fn group(job: i64) -> &'static str {
    if job < 100 { "g" } else { "other" }
}

/// What happens to jobs of one group, one transaction per second.
struct Story {
    queue: &'static str,
    now: i64,
    records: Records,
}

impl Story {
    fn of(queue: &'static str) -> Story {
        let records = Records::default();
        Story {
            queue,
            now: 0,
            records,
        }
    }

    /// The next transaction begins.
    fn next(mut self) -> Story {
        self.now += 1_000_000;
        self
    }

    /// Adds a row change, such as `r+`; see [`rows`].
    fn row(mut self, job: i64, what: &str) -> Story {
        let (now, seq) = (self.now, self.count());
        let row = rows(&format!("{now} {now} {what} job={job} seq={seq}")).remove(0);
        let of_group = match row.facts {
            Some(_) => format!("queue={} group={}", self.queue, group(job)),
            None => String::new(),
        };
        let row = with(
            &row,
            &format!("is_waiting={} {of_group}", what.starts_with('r')),
        );
        self.records.trace.push(row);
        self
    }

    fn count(&self) -> i64 {
        let count = self.records.trace.len() + self.records.slots.len();
        i64::try_from(count).expect("a short story")
    }

    fn turn(mut self, job: i64, change: Turn) -> Story {
        self.records.slots.push(SlotChange {
            seq: self.count(),
            at: self.now,
            tx: self.now,
            process: Arc::from(OPERATOR),
            job,
            queue: Arc::from(self.queue),
            group: Arc::from(group(job)),
            change,
        });
        self
    }

    fn enqueue(self, jobs: &[i64]) -> Story {
        jobs.iter()
            .fold(self.next(), |story, job| story.row(*job, "r+"))
    }

    fn leased(self, job: i64) -> Story {
        self.next().row(job, "r-").row(job, "l+")
    }

    /// It gets a turn and starts.
    fn start(self, job: i64) -> Story {
        self.leased(job).turn(job, Turn::Taken)
    }

    fn done(self, job: i64) -> Story {
        self.next().row(job, "l-").turn(job, Turn::Freed)
    }

    /// It waits for a retry, which is due at once.
    fn retry(self, job: i64) -> Story {
        let delayed = self.next().row(job, "l-").row(job, "d+");
        delayed.next().row(job, "d-").row(job, "r+")
    }

    /// It dies, and its letter takes the turn or frees it.
    fn dies(self, job: i64, turn: Turn) -> Story {
        let left = self.next().row(job, "l-");
        left.row(job, "x+ state=open cause=rejected")
            .turn(job, turn)
    }

    /// It becomes a letter behind another one, and this many attempts count.
    fn diverted(self, job: i64, attempts: i32) -> Story {
        let letter = format!("x+ state=open cause=diverted attempt={attempts}");
        self.next().row(job, "r-").row(job, &letter)
    }

    fn redrive(self, job: i64) -> Story {
        self.next().row(job, "x* state=redriving").row(job, "r+")
    }

    fn discard(self, job: i64) -> Story {
        self.next().row(job, "x* state=discarded cause=closed")
    }

    /// An operator releases the group that this letter holds.
    fn release(self, job: i64) -> Story {
        let mut story = self.next();
        let (from, to) = (story.now - 1, story.now + 1);
        let release = format!("release 1 {from}..{to} by={OPERATOR} got={job}");
        story.records.add(&release);
        story.turn(job, Turn::Freed)
    }

    /// A claim starts these jobs, whose rows are in no order; the first one takes the turn.
    fn starts(self, jobs: &[i64]) -> Story {
        let claim = |story: Story, job: &i64| story.row(*job, "r-").row(*job, "l+");
        jobs.iter()
            .rev()
            .fold(self.next(), claim)
            .turn(jobs[0], Turn::Taken)
    }

    /// It ends, and its turn passes to a follower.
    fn passes(self, job: i64, to: i64) -> Story {
        self.done(job).turn(to, Turn::Taken)
    }

    /// Followers that were not started return.
    fn returns(self, jobs: &[i64]) -> Story {
        let back = |story: Story, job: &i64| story.row(*job, "l-").row(*job, "r+");
        jobs.iter().fold(self.next(), back)
    }

    fn rules(mut self) -> Vec<Rule> {
        let mut findings = Findings::default();
        self.records
            .trace
            .sort_by_key(|change| (change.job, change.seq));
        let run = Run {
            records: &self.records,
            terms: &self.records.terms,
            jobs: HashMap::new(),
            attempts: HashMap::new(),
            calls: Calls::of(&self.records),
        };
        check(&run, &mut findings);
        let violations = findings.violations.iter();
        let mut rules: Vec<Rule> = violations.map(|violation| violation.rule).collect();
        rules.dedup();
        rules
    }
}

/// Two jobs of a held group, of which the first one is dead.
fn held() -> Story {
    Story::of(HELD)
        .enqueue(&[1, 2])
        .start(1)
        .dies(1, Turn::Held)
}

/// Three jobs of a group, of which the first one is dead and the others are diverted.
fn diverted() -> Story {
    let story = Story::of(DIVERTED).enqueue(&[1, 2, 3]).start(1);
    story.dies(1, Turn::Held).diverted(2, 0).diverted(3, 0)
}

/// The first letter of a diverted group is redriven and succeeds, and the next one takes the turn.
fn passed_on() -> Story {
    let story = diverted().redrive(1).turn(1, Turn::Taken).leased(1);
    story.done(1).turn(2, Turn::Held)
}

fn ordered(jobs: &[i64]) -> Story {
    Story::of(ORDERED).enqueue(jobs)
}

fn limited() -> Story {
    Story::of(LIMITED).enqueue(&[1, 2, 3])
}

fn three_held() -> Story {
    Story::of(HELD).enqueue(&[1, 2, 3])
}

macro_rules! stories {
    ($($what:literal: $story:expr $(=> $rule:ident)?;)+) => {
        for (what, story, broken) in [$(($what, $story, &[$(Rule::$rule)?][..])),+] {
            let found = story.rules();
            assert!(broken.iter().all(|rule| found.contains(rule)), "{what}: {found:?}");
            assert_eq!(broken.is_empty(), found.is_empty(), "{what}: {found:?}");
        }
    };
}

#[test]
fn correct_histories_of_groups_have_no_violations() {
    stories! {
        "in order": ordered(&[1, 2]).start(1).retry(1).leased(1).done(1).start(2).done(2);
        // The claim of 2 cannot have seen 1, whose transaction was open.
        "a late commit": ordered(&[2]).start(2).enqueue(&[1]).done(2).start(1).done(1);
        "a death that holds nothing": ordered(&[1, 2]).start(1).dies(1, Turn::Freed).start(2).done(2);
        "after a cancelled job": ordered(&[1, 2]).next().row(1, "r-").start(2).done(2);
        "held": held();
        "redriven first": held().redrive(1).turn(1, Turn::Taken).leased(1).done(1).start(2).done(2);
        "discarded": held().discard(1).turn(1, Turn::Freed).start(2).done(2);
        "released": held().release(1).start(2).done(2);
        "diverted": diverted();
        "passed on": passed_on();
        "redriven in order":
            passed_on().redrive(2).turn(2, Turn::Taken).leased(2).done(2).turn(3, Turn::Held);
        "released with diverted letters": diverted().release(1).enqueue(&[4]).start(4).done(4);
        "two at a time": limited().start(1).start(2).done(1).start(3).done(2).done(3);
        "followers": ordered(&[1, 2, 3, 4]).starts(&[1, 2, 3]).passes(1, 2).returns(&[3]).done(2)
            .starts(&[3, 4]).passes(3, 4).retry(4).leased(4).done(4);
        "a dead follower":
            three_held().starts(&[1, 2, 3]).passes(1, 2).dies(2, Turn::Held).returns(&[3]);
    }
}

#[test]
fn every_broken_history_of_a_group_violates_its_rule() {
    stories! {
        "two at once": ordered(&[1, 2]).start(1).start(2) => GroupOrder;
        "during a backoff": ordered(&[1, 2]).start(1).retry(1).start(2) => GroupOrder;
        "the second before the first": ordered(&[1, 2]).start(2).done(2) => GroupOrder;
        "three of two": limited().start(1).start(2).start(3) => GroupLimit;
        "behind a letter": held().start(2) => GroupHold;
        "behind a letter that lost its turn": held().next().turn(1, Turn::Freed).start(2) => GroupHold;
        "behind a redriven letter": held().redrive(1).turn(1, Turn::Taken).start(2) => GroupOrder;
        "diverted behind nothing": Story::of(DIVERTED).enqueue(&[1]).diverted(1, 0) => Diverted;
        "diverted with a charge":
            Story::of(DIVERTED).enqueue(&[1, 2]).start(1).dies(1, Turn::Held).diverted(2, 1) => Diverted;
        "before a diverted letter":
            passed_on().discard(2).turn(2, Turn::Freed).enqueue(&[4]).start(4) => Diverted;
        "without a turn": ordered(&[1, 2]).leased(1) => TurnOwned;
        "a turn that is left": ordered(&[1, 2]).start(1).next().row(1, "l-") => TurnOwned;
        "a letter with the turn of a job": held().turn(1, Turn::Taken) => TurnOwned;
        "a live job with the turn of a letter": held().redrive(1).turn(1, Turn::Held) => TurnOwned;
        "a follower before an earlier job": ordered(&[1, 2, 3]).starts(&[1, 3]) => GroupOrder;
        "a follower of another claim": ordered(&[1, 2]).start(1).leased(2) => GroupOrder;
        "followers without a turn": ordered(&[1, 2]).starts(&[1, 2]).done(1) => TurnOwned;
        "before followers that were leased earlier":
            three_held().starts(&[1, 2]).dies(1, Turn::Held).release(1).start(3) => GroupOrder;
        "behind a dead follower":
            three_held().starts(&[1, 2]).passes(1, 2).dies(2, Turn::Freed).start(3) => GroupHold;
    }
}

#[test]
fn a_diverted_group_without_letters_is_a_violation() {
    let mut left = Story::of(DIVERTED).enqueue(&[1]).start(1).done(1);
    left.records.diverted_groups = vec![(DIVERTED.to_owned(), "g".to_owned())];
    assert_eq!(left.rules(), [Rule::TurnOwned]);
}

#[test]
fn a_fair_group_that_waits_has_its_turn_before_another_one_has_many() {
    let jobs: Vec<i64> = (1..=21).collect();
    let story = |turns: usize| {
        let both = Story::of(FAIR).enqueue(&jobs).enqueue(&[100]);
        jobs[..turns]
            .iter()
            .fold(both, |story, job| story.leased(*job))
    };
    assert_eq!(story(21).rules(), [Rule::FairTurn], "it never had a turn");
    assert_eq!(story(20).leased(100).rules(), []);
    assert_eq!(story(21).leased(100).rules(), [Rule::FairTurn]);
}
