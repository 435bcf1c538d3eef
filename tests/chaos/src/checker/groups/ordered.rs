//! Checks the order of a group: one job at a time, by id, and nothing behind a letter that holds the group.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use redrive::GroupDeath;

use super::events::{GroupEvent, What};
use crate::checker::requests::Calls;
use crate::checker::{Findings, IN_FLIGHT, Rule};
use crate::db_trace::Turn;
use crate::history::Operation;

/// The cause of a letter that was diverted behind another one.
const DIVERTED: &str = "diverted";
/// The cause of one that an operator cancelled. If it waited, its letter holds nothing.
const MANUAL: &str = "manual";

/// The job or letter that keeps the others of its group waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Holder {
    Job(i64),
    Letter(i64),
}

struct Group<'a, 'f> {
    death: GroupDeath,
    holder: Option<Holder>,
    /// The ready jobs without a turn, with the commit since which others see them.
    waiting: BTreeMap<i64, i64>,
    /// The leased jobs that were claimed with the holder, and run after it.
    followers: BTreeSet<i64>,
    /// Those of them that died in the current transaction.
    dead_followers: BTreeSet<i64>,
    /// The current transaction, the one that claimed the holder, and the one that passed the turn to it.
    tx: i64,
    claimed_in: Option<i64>,
    passed_in: Option<i64>,
    /// The open letters that were diverted behind another one.
    diverted: BTreeSet<i64>,
    /// Transactions, with the jobs that they changed.
    changed: HashSet<(i64, i64)>,
    calls: &'a Calls<'a>,
    findings: &'f mut Findings,
}

pub(super) fn check(
    events: &[GroupEvent<'_>],
    death: GroupDeath,
    calls: &Calls<'_>,
    findings: &mut Findings,
) {
    let changes = events
        .iter()
        .filter(|event| !matches!(event.what, What::Turn(_)));
    let mut group = Group {
        death,
        holder: None,
        waiting: BTreeMap::new(),
        followers: BTreeSet::new(),
        dead_followers: BTreeSet::new(),
        tx: 0,
        claimed_in: None,
        passed_in: None,
        diverted: BTreeSet::new(),
        changed: changes.map(|event| (event.tx, event.job)).collect(),
        calls,
        findings,
    };
    for event in events {
        group.apply(event);
    }
}

impl Group<'_, '_> {
    fn violation(&mut self, rule: Rule, event: &GroupEvent<'_>, what: &str) {
        let text = format!("{what} in the group {}", event.group);
        self.findings.add(rule, event.job, event.at, text);
    }

    fn apply(&mut self, event: &GroupEvent<'_>) {
        let job = event.job;
        if event.tx != self.tx {
            self.tx = event.tx;
            self.dead_followers.clear();
        }
        let is_holder = self.holder == Some(Holder::Job(job));
        match event.what {
            // It was not started, or it runs again at once and the turn passes to it.
            What::Ready { waits } if self.followers.contains(&job) => {
                if waits {
                    self.followers.remove(&job);
                    self.waiting.insert(job, event.committed);
                }
            }
            // It returns with the other followers of a job that died.
            What::Ready { waits: true } if is_holder && self.passed_in == Some(event.tx) => {
                self.waiting.insert(job, event.committed);
                self.pass(event);
            }
            What::Ready { .. } if !is_holder => {
                self.waiting.insert(job, event.committed);
            }
            What::Ready { .. } => {}
            What::Delayed => {
                self.waiting.remove(&job);
            }
            What::Started => self.starts(event),
            What::Done => {
                // A cancelled job that waited has no turn.
                self.waiting.remove(&job);
                self.followers.remove(&job);
                if is_holder {
                    self.pass(event);
                }
            }
            What::Died {
                cause,
                is_charged,
                has_waited,
            } => {
                self.waiting.remove(&job);
                if cause == DIVERTED {
                    self.diverts(event, is_charged);
                }
                let is_cancelled = has_waited && cause == MANUAL;
                let holds =
                    !is_cancelled && matches!(self.death, GroupDeath::Hold | GroupDeath::Divert);
                match (is_holder, holds) {
                    (true, true) => self.is_held_by(job),
                    (true, false) => self.pass(event),
                    (false, _) => {
                        if self.followers.remove(&job) && holds {
                            self.dead_followers.insert(job);
                        }
                    }
                }
            }
            What::SentBack => {
                self.diverted.remove(&job);
                if self.holder == Some(Holder::Letter(job)) {
                    self.holder = Some(Holder::Job(job));
                }
            }
            What::Closed => {
                self.diverted.remove(&job);
                if self.holder == Some(Holder::Letter(job)) {
                    self.holder = None;
                }
            }
            What::Turn(Turn::Freed) => self.freed(event),
            What::Turn(Turn::Held) if self.holder.is_none() => self.holds(event),
            What::Turn(_) => {}
        }
    }

    fn is_held_by(&mut self, letter: i64) {
        self.holder = Some(Holder::Letter(letter));
    }

    /// The turn passes to the first follower, or ends.
    fn pass(&mut self, event: &GroupEvent<'_>) {
        let live = self.followers.first().copied();
        let dead = self.dead_followers.first().copied();
        match dead.filter(|dead| live.is_none_or(|live| *dead < live)) {
            Some(letter) => self.is_held_by(letter),
            None => {
                self.holder = self.followers.pop_first().map(Holder::Job);
                self.passed_in = Some(event.tx);
            }
        }
    }

    fn starts(&mut self, event: &GroupEvent<'_>) {
        self.waiting.remove(&event.job);
        match self.holder {
            Some(Holder::Job(job)) if job == event.job => return,
            Some(Holder::Job(_)) if self.claimed_in == Some(event.tx) => {
                self.check_earlier(event);
                self.followers.insert(event.job);
                return;
            }
            Some(Holder::Job(job)) => {
                let text = format!("it started while job {job} had its turn");
                self.violation(Rule::GroupOrder, event, &text);
            }
            Some(Holder::Letter(letter)) => {
                let text = format!("it started although letter {letter} was open");
                self.violation(Rule::GroupHold, event, &text);
            }
            None => {
                self.check_earlier(event);
                self.check_followers(event);
            }
        }
        self.holder = Some(Holder::Job(event.job));
        self.claimed_in = Some(event.tx);
        self.followers.clear();
    }

    /// Checks that no earlier job waits and no earlier letter was diverted.
    fn check_earlier(&mut self, event: &GroupEvent<'_>) {
        let mut earlier = self.waiting.range(..event.job);
        let seen = earlier.find(|(_, since)| **since + IN_FLIGHT < event.began);
        if let Some((job, _)) = seen {
            let text = format!("it started before job {job}, which was ready");
            self.violation(Rule::GroupOrder, event, &text);
        }
        if let Some(letter) = self.diverted.range(..event.job).next() {
            let text = format!("it started before letter {letter}, which was diverted");
            self.violation(Rule::Diverted, event, &text);
        }
    }

    /// Checks that no earlier job is still leased, without having been started.
    fn check_followers(&mut self, event: &GroupEvent<'_>) {
        if let Some(job) = self.followers.range(..event.job).next() {
            let text = format!("it started before job {job}, which was leased earlier");
            self.violation(Rule::GroupOrder, event, &text);
        }
    }

    fn diverts(&mut self, event: &GroupEvent<'_>, is_charged: bool) {
        self.diverted.insert(event.job);
        if is_charged {
            let text = "an attempt was charged when it was diverted";
            self.violation(Rule::Diverted, event, text);
        }
        if !matches!(self.holder, Some(Holder::Letter(_))) {
            let text = "it was diverted although no letter was open before it";
            self.violation(Rule::Diverted, event, text);
        }
    }

    /// Checks a turn that ended without a change of its job or letter: only a release does this.
    fn freed(&mut self, event: &GroupEvent<'_>) {
        if self.changed.contains(&(event.tx, event.job))
            || self.holder != Some(Holder::Letter(event.job))
        {
            return;
        }
        let (process, at) = (event.process, event.at);
        if !self.calls.covers(process, Operation::Release, at) {
            let text = format!("{process} released it without the operation");
            self.violation(Rule::GroupHold, event, &text);
        }
        self.holder = None;
        self.diverted.clear();
    }

    /// The next diverted letter holds the group after the previous one has ended.
    fn holds(&mut self, event: &GroupEvent<'_>) {
        if self.waiting.contains_key(&event.job) {
            let text = "its letter holds the group, but it was sent back";
            self.violation(Rule::GroupHold, event, text);
        }
        self.holder = Some(Holder::Letter(event.job));
    }
}
