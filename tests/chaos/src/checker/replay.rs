//! Replays the row changes of a job, and checks every move.

mod alteration;
mod content;
mod keys;
mod letters;
mod settlement;
mod waiting;

use std::collections::HashMap;
use std::sync::Arc;

use uuid::Uuid;

use crate::checker::job_history::{JobHistory, LeaseSpan};
use crate::checker::{Findings, Grant, MAX_CRASHES, Rule, Terms};
use crate::db_trace::{Change, Place, Renewal, RowChange};
use crate::facts::Facts;

/// The state of a job between two transactions.
#[derive(Default)]
struct Current<'a> {
    row: Option<&'a RowChange>,
    /// The state and generation of its letter.
    letter: Option<(Arc<str>, i32)>,
    was_enqueued: bool,
    content: Option<&'a Facts>,
    letter_content: Option<&'a Facts>,
}

/// Replays the row changes of a job.
pub(super) fn replay(
    changes: &[RowChange],
    terms: &Terms,
    renewed: &HashMap<Uuid, Vec<&Renewal>>,
    grants: &HashMap<Uuid, Grant>,
    findings: &mut Findings,
) -> JobHistory {
    let facts = changes.iter().find_map(|change| change.facts.as_ref());
    let mut replay = Replay {
        history: JobHistory {
            job: changes[0].job,
            queue: facts.map_or_else(Arc::default, |facts| Arc::clone(&facts.queue)),
            kind: facts.map_or_else(Arc::default, |facts| Arc::clone(&facts.kind)),
            group: facts.and_then(|facts| facts.group_key.clone()),
            cancelled: changes
                .iter()
                .find(|change| change.cause.as_deref() == Some("manual"))
                .map(|change| change.at),
            ..JobHistory::default()
        },
        now: Current::default(),
        terms,
        renewed,
        grants,
        findings,
    };
    for transaction in changes.chunk_by(|one, other| one.tx == other.tx) {
        let (claim, rest) = split_claim(transaction);
        for changes in [claim, rest] {
            if !changes.is_empty() {
                replay.transaction(changes);
            }
        }
    }
    replay.history.end = replay.now.row.map(|row| row.place);
    replay.history
}

/// Splits a transaction after a claim whose job returns in the same one, because its group has no token.
fn split_claim(changes: &[RowChange]) -> (&[RowChange], &[RowChange]) {
    let is = |change: &RowChange, kind| change.place == Place::Leased && change.change == kind;
    let claim = changes.iter().position(|row| is(row, Change::In));
    let split = claim.filter(|at| {
        let mut later = changes[at + 1..].iter();
        later.any(|row| is(row, Change::Out) && row.lease == changes[*at].lease)
    });
    changes.split_at(split.map_or(changes.len(), |at| at + 1))
}

/// Whether a worker made the change. Others move a waiting job only to change it.
fn is_by_worker(change: &RowChange) -> bool {
    change.process.starts_with("worker")
}

struct Replay<'a, 'f> {
    history: JobHistory,
    now: Current<'a>,
    terms: &'a Terms,
    renewed: &'a HashMap<Uuid, Vec<&'a Renewal>>,
    grants: &'a HashMap<Uuid, Grant>,
    findings: &'f mut Findings,
}

impl<'a> Replay<'a, '_> {
    fn violation(&mut self, rule: Rule, at: i64, what: impl Into<String>) {
        let job = Some(self.history.job);
        self.findings.add(rule, job, at, what);
    }

    /// Reports a violation unless the condition holds.
    fn demand(&mut self, holds: bool, rule: Rule, at: i64, what: impl FnOnce() -> String) {
        if !holds {
            self.violation(rule, at, what());
        }
    }

    /// Applies the changes of one transaction.
    fn transaction(&mut self, changes: &'a [RowChange]) {
        let at = changes[0].at;
        for edit in changes
            .iter()
            .filter(|change| change.change == Change::Edited)
        {
            self.altered_in_place(edit);
            self.edited(edit);
        }
        if changes.iter().all(|change| change.change == Change::Edited) {
            return;
        }
        for change in changes
            .iter()
            .filter(|change| change.change == Change::Truncated)
        {
            self.violation(Rule::Kept, change.at, "its segment was truncated");
        }
        let live = |kind: Change| {
            changes
                .iter()
                .filter(move |change| change.place != Place::Letter && change.change == kind)
        };
        let outs: Vec<&RowChange> = live(Change::Out).collect();
        let mut ins: Vec<&RowChange> = live(Change::In).collect();
        // No other transaction sees a row that is inserted and deleted in this one.
        let left = match (outs.as_slice(), self.now.row) {
            ([], _) => None,
            ([out], Some(here)) if out.place == here.place && out.lease == here.lease => Some(here),
            _ => {
                let places: Vec<Place> = outs.iter().map(|out| out.place).collect();
                let here = self.now.row.map(|row| row.place);
                self.violation(
                    Rule::OnePlace,
                    at,
                    format!("it left {places:?}, but was in {here:?}"),
                );
                self.now.row
            }
        };
        if ins.len() > 1 {
            let places: Vec<Place> = ins.iter().map(|row| row.place).collect();
            self.violation(Rule::OnePlace, at, format!("it entered {places:?} at once"));
            ins.truncate(1);
        }
        let entered = ins.first().copied();
        if let (Some(entered), None, Some(here)) = (entered, left, self.now.row) {
            let text = format!(
                "it entered {:?} without leaving {:?}",
                entered.place, here.place
            );
            self.violation(Rule::OnePlace, at, text);
        }
        let letter = changes
            .iter()
            .rfind(|change| change.place == Place::Letter && change.change != Change::Edited);
        match (left, entered) {
            (None, None) => self.letter_changes(letter, at),
            (None, Some(entered)) if self.now.row.is_none() => self.enters(entered, letter),
            (None, Some(_)) => {}
            (Some(left), entered) => self.moves(left, entered, letter, changes),
        }
        self.carried(left, entered, letter);
        if left.is_some() || entered.is_some() {
            self.track_key(entered, left, changes);
            self.now.row = entered;
        }
        if let Some(letter) = letter {
            self.now.letter = match letter.change {
                Change::Out => None,
                _ => letter.state.clone().map(|state| (state, letter.generation)),
            };
        }
    }

    /// Checks a job without a row that gets one: an enqueue or a redrive.
    fn enters(&mut self, entered: &'a RowChange, letter: Option<&RowChange>) {
        let at = entered.at;
        let counts = (entered.attempt, entered.crashes, entered.refunds);
        self.demand(counts == (0, 0, 0), Rule::Attempts, at, || {
            format!("it started with attempts, crashes or refunds: {counts:?}")
        });
        self.demand(
            entered.place != Place::Leased,
            Rule::NotInvented,
            at,
            || "it entered a lease without having been ready".to_owned(),
        );
        let redriving = letter.filter(|letter| letter.state.as_deref() == Some("redriving"));
        match (self.now.letter.clone(), redriving) {
            (None, None) if !self.now.was_enqueued => {
                let facts = entered.facts.as_deref();
                self.history.key = facts.and_then(Facts::key);
                self.history.follow_ups = facts.map_or(0, Facts::follow_ups);
                self.history.enqueuer = Some(Arc::clone(&entered.process));
                self.history.stored_by = entered.tx;
                self.history.enqueued = (entered.began, entered.at);
            }
            (Some((state, generation)), Some(_)) => {
                // No client forces a quarantined letter.
                self.demand(&*state == "open", Rule::RedriveOnce, at, || {
                    format!("it was redriven although its letter was {state}")
                });
                let next = entered.generation;
                self.demand(next == generation + 1, Rule::Lineage, at, || {
                    format!("generation {next} follows {generation}")
                });
                self.findings.count("redriven");
                self.history
                    .redriven
                    .push((at, Arc::clone(&entered.process)));
            }
            (Some((state, _)), None) => {
                let text = format!("it was redriven and its letter stayed {state}");
                self.violation(Rule::RedriveOnce, at, text);
            }
            (None, _) => self.violation(Rule::NotInvented, at, "it reappeared after it had ended"),
        }
        self.now.was_enqueued = true;
    }

    /// Checks a job that moves or ends.
    fn moves(
        &mut self,
        left: &'a RowChange,
        entered: Option<&'a RowChange>,
        letter: Option<&RowChange>,
        changes: &[RowChange],
    ) {
        let at = changes[0].at;
        let died = letter.filter(|letter| letter.is_open_letter());
        match (left.place, entered.map(|entered| entered.place)) {
            (Place::Ready, Some(Place::Leased)) => {
                if let Some(entered) = entered {
                    self.claimed(left, entered);
                }
            }
            (Place::Ready | Place::Delayed, Some(Place::Ready | Place::Delayed)) => {
                if let Some(entered) = entered {
                    self.waits_on(left, entered);
                }
            }
            (Place::Ready | Place::Delayed, None) => self.ends_waiting(left, died, &changes[0]),
            (Place::Leased, _) => {
                let end = self.settled(left, entered, died, letter, &changes[0]);
                if let Some(span) = self.history.leases.last_mut() {
                    span.to = at;
                    span.end = end;
                }
            }
            (_, place) => {
                let text = format!("it moved from {:?} to {place:?}", left.place);
                self.violation(Rule::OnePlace, at, text);
            }
        }
    }

    /// Checks a claim.
    fn claimed(&mut self, left: &RowChange, entered: &'a RowChange) {
        let at = entered.at;
        self.findings.count("claims");
        let (attempt, max) = (entered.attempt, entered.max_attempts);
        self.demand(attempt == left.attempt + 1, Rule::Attempts, at, || {
            format!("a claim changed attempt {} to {attempt}", left.attempt)
        });
        self.demand(attempt <= max, Rule::Attempts, at, || {
            format!("attempt {attempt} of {max}")
        });
        let counts = |row: &RowChange| (row.generation, row.crashes, row.refunds);
        self.demand(counts(entered) == counts(left), Rule::Attempts, at, || {
            "a claim changed its generation, crashes or refunds".to_owned()
        });
        let crashes = entered.crashes;
        self.demand(crashes < MAX_CRASHES, Rule::Attempts, at, || {
            format!("it was claimed after {crashes} crashes")
        });
        let Some(lease) = entered.lease else { return };
        let Grant { tx, jobs } = self.grants[&lease];
        self.demand(tx == entered.tx, Rule::Fenced, at, || {
            format!("lease {lease} was granted twice")
        });
        self.demand(crashes == 0 || jobs == 1, Rule::SuspectsAlone, at, || {
            format!("a suspect shares its lease with {} jobs", jobs - 1)
        });
        self.history.leases.push(LeaseSpan {
            process: Arc::clone(&entered.process),
            worker: entered.worker,
            committed: entered.committed,
            from: at,
            to: i64::MAX,
            attempt: entered.attempt,
            generation: entered.generation,
            refunds: entered.refunds,
            crashes: entered.crashes,
            checkpoint: entered.facts.as_deref().and_then(Facts::checkpoint),
            ..LeaseSpan::default()
        });
    }
}
