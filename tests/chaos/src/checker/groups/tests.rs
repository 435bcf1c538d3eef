//! Correct histories of a group have no violations, and each broken one violates a rule.

mod followers;

use std::sync::Arc;

use uuid::Uuid;

use super::check;
use crate::checker::{Findings, Records, Rule};
use crate::db_trace::{Change, Place, RowChange, SlotChange, Turn};
use crate::facts::Facts;
use crate::history::{ClientEvent, HistoryLine, Operation};
use crate::role::groups::{DIVERTED, FAIR, HELD, LIMITED, ORDERED};

/// A second, in microseconds.
const SECOND: i64 = 1_000_000;

/// What happens to jobs of one group, one transaction per second.
struct Story {
    queue: &'static str,
    now: i64,
    records: Records,
}

impl Story {
    fn of(queue: &'static str) -> Story {
        Story {
            queue,
            now: 0,
            records: Records::default(),
        }
    }

    /// The next transaction begins.
    fn next(mut self) -> Story {
        self.now += SECOND;
        self
    }

    fn row(mut self, job: i64, place: Place, change: Change, cause: Option<&str>) -> Story {
        let state = match (place, cause) {
            (Place::Letter, Some("closed")) => Some("discarded"),
            (Place::Letter, Some(_)) => Some("open"),
            (Place::Letter, None) => Some("redriving"),
            _ => None,
        };
        let group = if job < 100 { "g" } else { "other" };
        let facts = Facts {
            queue: Arc::from(self.queue),
            group_key: Some(Arc::from(group)),
            ..Facts::default()
        };
        let count = self.records.trace.len() + self.records.slots.len();
        self.records.trace.push(RowChange {
            seq: i64::try_from(count).expect("a short story"),
            at: self.now,
            began: self.now,
            committed: self.now,
            tx: self.now,
            process: Arc::from("worker-1.1"),
            job,
            place,
            change,
            attempt: 0,
            max_attempts: 4,
            generation: 0,
            crashes: 0,
            refunds: 0,
            lease: (place == Place::Leased).then(|| Uuid::from_u128(1)),
            worker: None,
            state: state.map(Arc::from),
            cause: cause.map(Arc::from),
            key: None,
            unique_key: None,
            due: None,
            ready_at: None,
            is_partial: false,
            is_archived: false,
            is_waiting: place == Place::Ready,
            facts: (change != Change::Out).then(|| Arc::new(facts)),
        });
        self
    }

    fn turn(mut self, job: i64, change: Turn) -> Story {
        let count = self.records.trace.len() + self.records.slots.len();
        self.records.slots.push(SlotChange {
            seq: i64::try_from(count).expect("a short story"),
            at: self.now,
            tx: self.now,
            process: Arc::from("operator-1.1"),
            job,
            queue: Arc::from(self.queue),
            group: Arc::from(if job < 100 { "g" } else { "other" }),
            change,
        });
        self
    }

    fn enqueue(self, jobs: &[i64]) -> Story {
        let enqueue = |story: Story, job: &i64| story.row(*job, Place::Ready, Change::In, None);
        jobs.iter().fold(self.next(), enqueue)
    }

    fn leased(self, job: i64) -> Story {
        let left = self.next().row(job, Place::Ready, Change::Out, None);
        left.row(job, Place::Leased, Change::In, None)
    }

    /// It gets a turn and starts.
    fn start(self, job: i64) -> Story {
        self.leased(job).turn(job, Turn::Taken)
    }

    fn done(self, job: i64) -> Story {
        let left = self.next().row(job, Place::Leased, Change::Out, None);
        left.turn(job, Turn::Freed)
    }

    /// It waits for a retry, which is due at once.
    fn retry(self, job: i64) -> Story {
        let left = self.next().row(job, Place::Leased, Change::Out, None);
        let delayed = left.row(job, Place::Delayed, Change::In, None).next();
        let promoted = delayed.row(job, Place::Delayed, Change::Out, None);
        promoted.row(job, Place::Ready, Change::In, None)
    }

    /// It dies, and its letter takes the turn or frees it.
    fn dies(self, job: i64, turn: Turn) -> Story {
        let left = self.next().row(job, Place::Leased, Change::Out, None);
        let letter = left.row(job, Place::Letter, Change::In, Some("rejected"));
        letter.turn(job, turn)
    }

    /// It becomes a letter behind another one.
    fn diverted(self, job: i64) -> Story {
        let left = self.next().row(job, Place::Ready, Change::Out, None);
        left.row(job, Place::Letter, Change::In, Some("diverted"))
    }

    fn redrive(self, job: i64) -> Story {
        let letter = self.next().row(job, Place::Letter, Change::Updated, None);
        letter.row(job, Place::Ready, Change::In, None)
    }

    fn discard(self, job: i64) -> Story {
        self.next()
            .row(job, Place::Letter, Change::Updated, Some("closed"))
    }

    /// An operator releases the group that this letter holds.
    fn release(self, job: i64) -> Story {
        let mut story = self.next();
        let line = |at, event| HistoryLine {
            at,
            process: "operator-1.1".to_owned(),
            op: 1,
            event,
        };
        let invoked = ClientEvent::Invoked {
            operation: Operation::Release,
            keys: Vec::new(),
            ids: Vec::new(),
        };
        story.records.history.push(line(story.now - 1, invoked));
        let answer = ClientEvent::Ok { ids: vec![job] };
        story.records.history.push(line(story.now + 1, answer));
        story.turn(job, Turn::Freed)
    }

    /// An operator cancels a job that waits.
    fn cancelled(self, job: i64) -> Story {
        self.next().row(job, Place::Ready, Change::Out, None)
    }

    /// The turn ends without an operation.
    fn freed(self, job: i64) -> Story {
        self.next().turn(job, Turn::Freed)
    }

    fn rules(mut self) -> Vec<Rule> {
        let mut findings = Findings::default();
        self.records
            .trace
            .sort_by_key(|change| (change.job, change.seq));
        check(&self.records, &mut findings);
        let violations = findings.violations.iter();
        let mut rules: Vec<Rule> = violations.map(|violation| violation.rule).collect();
        rules.dedup();
        rules
    }
}

/// Two jobs of a held group, of which the first one is dead.
fn held() -> Story {
    let story = Story::of(HELD).enqueue(&[1, 2]).start(1);
    story.dies(1, Turn::Held)
}

/// Three jobs of a group, of which the first one is dead and the others are diverted.
fn diverted() -> Story {
    let story = Story::of(DIVERTED).enqueue(&[1, 2, 3]).start(1);
    story.dies(1, Turn::Held).diverted(2).diverted(3)
}

/// The first letter of a diverted group is redriven and succeeds, and the next one takes the turn.
fn passed_on() -> Story {
    let story = diverted().redrive(1).turn(1, Turn::Taken).leased(1);
    story.done(1).turn(2, Turn::Held)
}

#[test]
fn correct_histories_of_groups_have_no_violations() {
    let in_order = Story::of(ORDERED).enqueue(&[1, 2]).start(1).retry(1);
    let stories = [
        ("in order", in_order.leased(1).done(1).start(2).done(2)),
        // The claim of 2 cannot have seen 1, whose transaction was open.
        (
            "a late commit",
            Story::of(ORDERED)
                .enqueue(&[2])
                .start(2)
                .enqueue(&[1])
                .done(2)
                .start(1)
                .done(1),
        ),
        (
            "a death that holds nothing",
            Story::of(ORDERED)
                .enqueue(&[1, 2])
                .start(1)
                .dies(1, Turn::Freed)
                .start(2)
                .done(2),
        ),
        (
            "after a cancelled job",
            Story::of(ORDERED)
                .enqueue(&[1, 2])
                .cancelled(1)
                .start(2)
                .done(2),
        ),
        ("held", held()),
        (
            "redriven first",
            held()
                .redrive(1)
                .turn(1, Turn::Taken)
                .leased(1)
                .done(1)
                .start(2)
                .done(2),
        ),
        (
            "discarded",
            held().discard(1).turn(1, Turn::Freed).start(2).done(2),
        ),
        ("released", held().release(1).start(2).done(2)),
        ("diverted", diverted()),
        ("passed on", passed_on()),
        (
            "redriven in order",
            passed_on()
                .redrive(2)
                .turn(2, Turn::Taken)
                .leased(2)
                .done(2)
                .turn(3, Turn::Held),
        ),
        (
            "released with diverted letters",
            diverted().release(1).enqueue(&[4]).start(4).done(4),
        ),
        (
            "two at a time",
            Story::of(LIMITED)
                .enqueue(&[1, 2, 3])
                .start(1)
                .start(2)
                .done(1)
                .start(3)
                .done(2)
                .done(3),
        ),
    ];
    for (what, story) in stories {
        assert_eq!(story.rules(), [], "{what}");
    }
}

#[test]
fn every_broken_history_of_a_group_violates_its_rule() {
    let ordered = || Story::of(ORDERED).enqueue(&[1, 2]);
    let limited = || Story::of(LIMITED).enqueue(&[1, 2, 3]);
    let cases = [
        ("two at once", ordered().start(1).start(2), Rule::GroupOrder),
        (
            "during a backoff",
            ordered().start(1).retry(1).start(2),
            Rule::GroupOrder,
        ),
        (
            "the second before the first",
            ordered().start(2).done(2),
            Rule::GroupOrder,
        ),
        (
            "three of two",
            limited().start(1).start(2).start(3),
            Rule::GroupLimit,
        ),
        ("behind a letter", held().start(2), Rule::GroupHold),
        (
            "behind a letter that lost its turn",
            held().freed(1).start(2),
            Rule::GroupHold,
        ),
        (
            "behind a redriven letter",
            held().redrive(1).turn(1, Turn::Taken).start(2),
            Rule::GroupOrder,
        ),
        (
            "diverted behind nothing",
            Story::of(DIVERTED).enqueue(&[1]).diverted(1),
            Rule::Diverted,
        ),
        (
            "before a diverted letter",
            passed_on()
                .discard(2)
                .turn(2, Turn::Freed)
                .enqueue(&[4])
                .start(4),
            Rule::Diverted,
        ),
        ("without a turn", ordered().leased(1), Rule::TurnOwned),
        (
            "a turn that is left",
            ordered()
                .start(1)
                .next()
                .row(1, Place::Leased, Change::Out, None),
            Rule::TurnOwned,
        ),
        (
            "a letter with the turn of a job",
            held().turn(1, Turn::Taken),
            Rule::TurnOwned,
        ),
        (
            "a live job with the turn of a letter",
            held().redrive(1).turn(1, Turn::Held),
            Rule::TurnOwned,
        ),
    ];
    for (what, story, rule) in cases {
        let found = story.rules();
        assert!(found.contains(&rule), "{what}: {found:?}");
    }
}

#[test]
fn a_charge_for_a_diverted_job_and_a_diverted_group_without_letters_are_violations() {
    let mut charged = diverted();
    for change in &mut charged.records.trace {
        change.attempt = i32::from(change.job == 2 && change.place == Place::Letter);
    }
    assert!(charged.rules().contains(&Rule::Diverted));
    let mut left = Story::of(DIVERTED).enqueue(&[1]).start(1).done(1);
    left.records.diverted_groups = vec![(DIVERTED.to_owned(), "g".to_owned())];
    assert_eq!(left.rules(), [Rule::TurnOwned]);
}

#[test]
fn a_fair_group_that_waits_has_its_turn_before_another_one_has_many() {
    let jobs: Vec<i64> = (1..=21).collect();
    let story = |turns: usize| {
        let both = Story::of(FAIR).enqueue(&jobs).enqueue(&[100]);
        let story = jobs[..turns]
            .iter()
            .fold(both, |story, job| story.leased(*job));
        story.leased(100)
    };
    let unserved = jobs.iter().fold(
        Story::of(FAIR).enqueue(&jobs).enqueue(&[100]),
        |story, job| story.leased(*job),
    );
    assert_eq!(unserved.rules(), [Rule::FairTurn], "it never had a turn");
    assert_eq!(story(20).rules(), []);
    assert_eq!(story(21).rules(), [Rule::FairTurn]);
}
