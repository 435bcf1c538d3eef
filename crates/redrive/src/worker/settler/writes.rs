//! Writes verdicts, and keeps those that cannot be written yet.
//!
//! Another session may hold a lock that one lease needs, and the database may reject one verdict.
//! Neither may hold the other leases: a statement that fails for such a reason is repeated in smaller
//! parts. A lease that still fails is postponed. It stays in the ledger and counts as held, so its
//! finished jobs are not released, for as long as the worker may rely on its leases.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;

use super::Settler;
use super::counts::{count, count_lost};
use super::rejected::{failed, with_plain_report};
use crate::error::{Error, Result};
use crate::pipeline::claim::LeaseId;
use crate::pipeline::follow_up::{LockWait, settle_and_store};
use crate::pipeline::settle::{Repeat, settle_done};
use crate::pipeline::settlement::Settlement;
use crate::sync::Instant;
use crate::worker::ledger::Account;
use crate::worker::retry::retry;
use crate::worker::state::State;

/// The maximum number of verdicts per statement, except for a single larger lease.
const VERDICTS: usize = 1000;

/// How many locks or answers a pass waits for in vain before it postpones the rest of a statement.
const MAX_WAITS: usize = 2;

/// A statement that writes verdicts.
#[derive(Clone, Copy)]
enum Statement {
    /// Ends leases whose jobs are all done.
    Done,
    Verdicts(LockWait),
}

impl Settler<'_> {
    /// Writes what is due.
    pub(super) fn write(&mut self, due: Vec<Account>) {
        let (postponed, fresh): (Vec<_>, Vec<_>) =
            due.into_iter().partition(|lease| lease.is_postponed);
        let (done, mixed): (Vec<_>, Vec<_>) = fresh.into_iter().partition(Account::is_done);
        if !done.is_empty() {
            self.write_leases(done, Statement::Done);
        }
        for leases in in_statements(mixed) {
            self.write_leases(leases, Statement::Verdicts(LockWait::Usual));
        }
        for lease in postponed {
            self.write_leases(vec![lease], Statement::Verdicts(LockWait::Short));
        }
    }

    /// Writes leases with one statement, or in parts if that fails, and postpones what cannot be written.
    fn write_leases(&mut self, mut leases: Vec<Account>, mut statement: Statement) {
        let all = take_verdicts(&mut leases);
        // An earlier write of them may have taken effect.
        let mut one_was_lost = leases.iter().any(|lease| lease.is_unanswered);
        let mut parts: VecDeque<Arc<[Settlement]>> = match one_was_lost {
            // A statement would write nothing of a lease beside what is written.
            true => all.chunks(1).map(Arc::from).collect(),
            false => [all].into(),
        };
        let (mut unwritten, mut cause, mut waits) = (Vec::new(), None, 0);
        while waits < MAX_WAITS
            && let Some(part) = parts.pop_front()
        {
            let written = self.settle_acceptable(&part, &mut one_was_lost, statement);
            statement = Statement::Verdicts(LockWait::Short);
            let Err(error) = written else {
                continue;
            };
            let smaller = parts_of(&part, &error);
            if smaller.is_empty() {
                waits += usize::from(error.is_unavailable());
                unwritten.extend_from_slice(&part);
            } else {
                log::warn!("{}: settling in parts: {error:#}", self.state);
            }
            parts.extend(smaller);
            cause = Some(error);
        }
        // The next pass begins with what this one has not tried.
        let untried = parts.iter().flat_map(|part| part.iter()).cloned();
        for one in untried.chain(unwritten) {
            let mut its = leases.iter_mut();
            if let Some(lease) = its.find(|lease| lease.lease == one.lease) {
                lease.settlements.push(one);
            }
        }
        let is_written = |lease: &Account| lease.settlements.is_empty();
        let (written, unwritten): (Vec<_>, Vec<_>) = leases.into_iter().partition(is_written);
        self.end(written);
        if let Some(cause) = cause.filter(|_| !unwritten.is_empty()) {
            self.postpone(unwritten, one_was_lost, &cause);
        }
    }

    /// Writes verdicts. If the database rejects the only one, its error report is reduced to a text that the database
    /// accepts; a job with rejected follow-ups fails.
    fn settle_acceptable(
        &mut self,
        settlements: &Arc<[Settlement]>,
        one_was_lost: &mut bool,
        statement: Statement,
    ) -> Result<()> {
        let settled = self.settle(settlements, one_was_lost, statement);
        let (Err(error), [one]) = (&settled, &**settlements) else {
            return settled;
        };
        if error.is_unavailable() {
            return settled;
        }
        let (state, job) = (self.state, one.meta.id);
        log::error!("{state} job={job}: its verdict was rejected: {error:#}");
        let acceptable = match one.has_follow_ups() {
            true => failed(one, error, state),
            false => with_plain_report(one),
        };
        let statement = Statement::Verdicts(LockWait::Short);
        let settled = self.settle(&[acceptable].into(), one_was_lost, statement);
        settled.inspect_err(|error| {
            log::error!("{state} job={job}: could not be settled: {error:#}");
        })
    }

    /// Writes verdicts with one statement, and counts them.
    fn settle(
        &mut self,
        settlements: &Arc<[Settlement]>,
        one_was_lost: &mut bool,
        statement: Statement,
    ) -> Result<()> {
        let state = self.state;
        let key = |one: &Settlement| (one.lease, one.meta.id);
        // If another session holds a lock, the server is available and the settler can do other work.
        let is_worth_it = |error: &Error| error.is_unavailable() && !error.is_locked();
        let mut lost: HashSet<_> = retry(state, self.until, is_worth_it, || {
            let (settlements, identity) = (Arc::clone(settlements), state.identity.clone());
            let repeat = repeat(state, *one_was_lost);
            let answer = self.call("settle jobs", move |session| {
                let all = settlements.iter();
                Ok(match statement {
                    Statement::Done => {
                        let ended = settle_done(session, &settlements, repeat)?;
                        let is_lost = |one: &&Settlement| !ended.contains(&one.lease);
                        all.filter(is_lost).map(key).collect()
                    }
                    Statement::Verdicts(wait) => {
                        let written =
                            settle_and_store(session, &identity, &settlements, repeat, wait)?;
                        all.map(key).filter(|key| !written.contains(key)).collect()
                    }
                })
            });
            *one_was_lost |= answer.as_ref().is_err_and(Error::is_lost);
            answer
        })?;
        if repeat(state, *one_was_lost) == Repeat::Again {
            // They were written before.
            lost.clear();
        }
        state.count_written(settlements.len());
        let (lost, written): (Vec<_>, Vec<_>) =
            settlements.iter().partition(|one| lost.contains(&key(one)));
        count(state, &mut self.log, written.into_iter());
        let results = lost.iter().filter(|one| !one.is_unstarted());
        count_lost(state, results.count() as u64);
        Ok(())
    }

    /// Forgets written leases without remaining jobs, and keeps the others.
    fn end(&mut self, leases: Vec<Account>) {
        let (ended, open): (Vec<_>, Vec<_>) = leases.into_iter().partition(Account::ends);
        self.state.forget(&ids(&ended));
        for lease in open {
            self.ledger.open(lease.lease, lease.left);
        }
    }

    /// Keeps leases that could not be written. Gives them up if the worker cannot rely on them.
    fn postpone(&mut self, leases: Vec<Account>, one_was_lost: bool, error: &Error) {
        let (state, now) = (self.state, Instant::now());
        if !state.trust.holds(now) {
            log::error!("{state}: verdicts could not be settled: {error:#}");
            return self.give_up(&leases);
        }
        log::warn!("{state}: verdicts not settled yet, retrying later: {error:#}");
        for mut lease in leases {
            lease.is_unanswered |= one_was_lost;
            self.ledger.postpone(lease, now);
        }
    }

    /// Gives up verdicts. Their jobs return when their leases end.
    pub(super) fn give_up(&mut self, leases: &[Account]) {
        let all = leases.iter().flat_map(|lease| &lease.settlements);
        let results = all.filter(|one| !one.is_unstarted()).count();
        if results > 0 {
            let state = self.state;
            log::error!(
                "{state}: {results} jobs will run again, because they could not be settled"
            );
            count_lost(state, results as u64);
        }
        self.state.count_written(verdicts(leases));
        self.state.forget(&ids(leases));
    }
}

/// Whether a lease that the database lacks was settled by an earlier write whose answer was lost. While the worker may rely
/// on its leases, nobody else ends them.
fn repeat(state: &State, one_was_lost: bool) -> Repeat {
    match one_was_lost && state.trust.holds(Instant::now()) {
        true => Repeat::Again,
        false => Repeat::First,
    }
}

/// Takes the verdicts out of leases, those of each lease together.
///
/// Of these, the jobs that no slot started come first: once the job before them in their group is settled, a later one could
/// start before them. Only if the database refuses them do the others not wait.
fn take_verdicts(leases: &mut [Account]) -> Arc<[Settlement]> {
    let take = |lease: &mut Account| {
        let mut its = std::mem::take(&mut lease.settlements);
        its.sort_by_key(|one| !one.is_unstarted());
        its
    };
    leases.iter_mut().flat_map(take).collect()
}

/// Splits verdicts that could not be written together, so that one job does not hold or harm the others: by lease, and
/// those of a lease by job. Only jobs that need what an open transaction has locked wait for it. Empty: no part of them can
/// be written.
fn parts_of(all: &[Settlement], error: &Error) -> Vec<Arc<[Settlement]>> {
    let is_locked = error.is_locked();
    if error.is_unavailable() && !is_locked || all.len() < 2 {
        return Vec::new();
    }
    let leases: Vec<_> = all.chunk_by(|one, next| one.lease == next.lease).collect();
    if leases.len() > 1 {
        return leases.into_iter().map(Arc::from).collect();
    }
    let needs_own = |one: &Settlement| !is_locked || one.may_wait();
    let (own, others): (Vec<_>, Vec<_>) = all.iter().cloned().partition(needs_own);
    if own.is_empty() {
        return Vec::new();
    }
    let (first, last): (Vec<_>, Vec<_>) = own.into_iter().partition(Settlement::is_unstarted);
    let alone = |one| Arc::<[Settlement]>::from([one]);
    let others = Some(Arc::<[Settlement]>::from(others));
    let others = others.filter(|others| !others.is_empty());
    let first = first.into_iter().map(alone);
    first
        .chain(others)
        .chain(last.into_iter().map(alone))
        .collect()
}

/// Splits verdicts into statements, never within a lease.
fn in_statements(leases: Vec<Account>) -> Vec<Vec<Account>> {
    let mut statements: Vec<Vec<Account>> = Vec::new();
    for lease in leases {
        match statements.last_mut() {
            Some(statement) if verdicts(statement) < VERDICTS => statement.push(lease),
            Some(_) | None => statements.push(vec![lease]),
        }
    }
    statements
}

fn verdicts(leases: &[Account]) -> usize {
    leases.iter().map(|lease| lease.settlements.len()).sum()
}

fn ids(leases: &[Account]) -> Vec<LeaseId> {
    leases.iter().map(|lease| lease.lease).collect()
}
