//! Writes verdicts, and keeps those that cannot be written yet.
//!
//! Another session may hold a lock that one lease needs, and the database may reject one verdict.
//! Neither may hold the other leases: a statement that fails for such a reason is repeated in smaller
//! parts. A lease that still fails is postponed. It stays in the ledger and counts as held, so its
//! finished jobs are not released, for as long as the worker may rely on its leases.

use std::collections::VecDeque;
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
use crate::sync::atomic::Ordering;
use crate::worker::ledger::Account;
use crate::worker::retry::retry_unless_locked;
use crate::worker::state::State;

/// The maximum number of verdicts per statement, except for a single larger lease.
const VERDICTS: usize = 1000;

/// How many locks or answers a pass waits for in vain before it postpones the rest of a statement.
const MAX_WAITS: usize = 2;

impl Settler<'_> {
    /// Writes what is due.
    pub(super) fn write(&mut self, due: Vec<Account>) {
        let (postponed, fresh): (Vec<_>, Vec<_>) =
            due.into_iter().partition(|lease| lease.is_postponed);
        let (done, mixed) = fresh.into_iter().partition(Account::is_done);
        self.write_done(done);
        for statement in in_statements(mixed) {
            self.write_verdicts(statement, LockWait::Usual);
        }
        for lease in postponed {
            self.write_verdicts(vec![lease], LockWait::Short);
        }
    }

    /// Writes leases with one statement, or in parts if that fails.
    fn write_verdicts(&mut self, mut leases: Vec<Account>, lock_wait: LockWait) {
        let (all, mut answers) = (take_verdicts(&mut leases), Answers::of(&leases));
        if answers.one_was_lost {
            return self.write_parts(leases, &all, answers, None);
        }
        match self.settle_acceptable(&all, &mut answers, lock_wait) {
            Ok(()) => self.end(leases),
            Err(error) => self.write_parts(leases, &all, answers, Some(error)),
        }
    }

    /// Writes what it can of the verdicts that one statement could not write, and postpones the rest. `None`: it has not
    /// tried, because an earlier pass may have written some. The statement would write nothing of a lease beside those.
    fn write_parts(
        &mut self,
        mut leases: Vec<Account>,
        all: &[Settlement],
        mut answers: Answers,
        error: Option<Error>,
    ) {
        let parts = match &error {
            Some(error) => parts_of(all, error),
            None => all.chunks(1).map(Arc::from).collect(),
        };
        let (unwritten, cause) = match parts.is_empty() {
            true => (all.to_vec(), error),
            false => {
                if let Some(error) = &error {
                    log::warn!("{}: settling in parts: {error:#}", self.state);
                }
                let (unwritten, last) = self.in_parts(parts.into(), |settler, part| {
                    settler.settle_acceptable(part, &mut answers, LockWait::Short)
                });
                (unwritten, last.or(error))
            }
        };
        for one in unwritten {
            let mut its = leases.iter_mut();
            if let Some(lease) = its.find(|lease| lease.lease == one.lease) {
                lease.settlements.push(one);
            }
        }
        let is_written = |lease: &Account| lease.settlements.is_empty();
        let leases = answers.mark(leases).into_iter();
        let (written, unwritten): (Vec<_>, Vec<_>) = leases.partition(is_written);
        self.end(written);
        if let (Some(cause), false) = (cause, unwritten.is_empty()) {
            self.postpone(unwritten, &cause);
        }
    }

    /// Writes parts, and splits those that fail. Returns what is not written and the last error. The next pass begins with
    /// what this one has not tried.
    fn in_parts(
        &mut self,
        mut parts: VecDeque<Arc<[Settlement]>>,
        mut write: impl FnMut(&mut Self, &Arc<[Settlement]>) -> Result<()>,
    ) -> (Vec<Settlement>, Option<Error>) {
        let (mut tried, mut cause, mut waits) = (Vec::new(), None, 0);
        while waits < MAX_WAITS
            && let Some(part) = parts.pop_front()
        {
            let Err(error) = write(self, &part) else {
                continue;
            };
            let smaller = parts_of(&part, &error);
            if smaller.is_empty() {
                waits += usize::from(error.is_unavailable());
                tried.extend_from_slice(&part);
            }
            parts.extend(smaller);
            cause = Some(error);
        }
        let untried = parts.iter().flat_map(|part| part.iter()).cloned();
        (untried.chain(tried).collect(), cause)
    }

    /// Writes verdicts. If the database rejects the only one, its error report is reduced to a text that the database
    /// accepts; a job with rejected follow-ups fails.
    fn settle_acceptable(
        &mut self,
        settlements: &Arc<[Settlement]>,
        answers: &mut Answers,
        lock_wait: LockWait,
    ) -> Result<()> {
        let settled = self.settle(settlements, answers, lock_wait);
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
        let settled = self.settle(&[acceptable].into(), answers, lock_wait);
        settled.inspect_err(|error| {
            log::error!("{state} job={job}: could not be settled: {error:#}");
        })
    }

    /// Ends leases whose jobs are all done with one statement, or in parts if that fails.
    fn write_done(&mut self, mut leases: Vec<Account>) {
        if leases.is_empty() {
            return;
        }
        let state = self.state;
        let (all, mut answers) = (take_verdicts(&mut leases), Answers::of(&leases));
        let ended = retry_unless_locked(state, self.until, || {
            let (all, repeat) = (Arc::clone(&all), answers.repeat(state));
            answers.note(self.call("settle finished jobs", move |session| {
                settle_done(session, &all, repeat)
            }))
        });
        let ended = match ended {
            Ok(ended) => ended,
            Err(error) => return self.write_parts(leases, &all, answers, Some(error)),
        };
        self.state.forget(&ids(&leases));
        state.count_written(all.len());
        let all_are_written = answers.repeat(state) == Repeat::Again;
        let is_done = |one: &&Settlement| all_are_written || ended.contains(&one.lease);
        let done = all.iter().filter(is_done).count();
        state.counts.done.fetch_add(done as u64, Ordering::Relaxed);
        count_lost(state, (all.len() - done) as u64);
        if all.iter().any(|done| done.meta.group.is_some()) {
            // Turns pass on.
            state.look_for_jobs();
        }
    }

    /// Writes verdicts with one statement, and counts them.
    fn settle(
        &mut self,
        settlements: &Arc<[Settlement]>,
        answers: &mut Answers,
        lock_wait: LockWait,
    ) -> Result<()> {
        let state = self.state;
        let written = retry_unless_locked(state, self.until, || {
            let (settlements, identity) = (Arc::clone(settlements), state.identity.clone());
            let repeat = answers.repeat(state);
            answers.note(self.call("settle jobs", move |session| {
                settle_and_store(session, &identity, &settlements, repeat, lock_wait)
            }))
        })?;
        state.count_written(settlements.len());
        let all_are_written = answers.repeat(state) == Repeat::Again;
        let is_written =
            |one: &&Settlement| all_are_written || written.contains(&(one.lease, one.meta.id));
        let of_written = settlements.iter().filter(is_written);
        count(state, &mut self.log, of_written);
        if !all_are_written {
            let is_lost = |one: &&Settlement| !is_written(one) && !one.is_unstarted();
            count_lost(state, settlements.iter().filter(is_lost).count() as u64);
        }
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
    fn postpone(&mut self, leases: Vec<Account>, error: &Error) {
        let (state, now) = (self.state, Instant::now());
        if !state.trust.holds(now) {
            log::error!("{state}: verdicts could not be settled: {error:#}");
            return self.give_up(&leases);
        }
        log::warn!("{state}: verdicts not settled yet, retrying later: {error:#}");
        for lease in leases {
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

/// Whether an earlier write of these leases may have taken effect, because its answer was lost.
struct Answers {
    one_was_lost: bool,
}

impl Answers {
    fn of(leases: &[Account]) -> Answers {
        Answers {
            one_was_lost: leases.iter().any(|lease| lease.is_unanswered),
        }
    }

    /// Notes the answer of a write.
    fn note<T>(&mut self, answer: Result<T>) -> Result<T> {
        self.one_was_lost |= answer.as_ref().is_err_and(Error::is_lost);
        answer
    }

    /// Whether a lease that the database lacks was settled by an earlier write. While the worker may rely on its leases,
    /// nobody else ends them.
    fn repeat(&self, state: &State) -> Repeat {
        match self.one_was_lost && state.trust.holds(Instant::now()) {
            true => Repeat::Again,
            false => Repeat::First,
        }
    }

    fn mark(&self, mut leases: Vec<Account>) -> Vec<Account> {
        for lease in &mut leases {
            lease.is_unanswered |= self.one_was_lost;
        }
        leases
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
