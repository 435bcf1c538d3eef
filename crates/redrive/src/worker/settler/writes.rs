//! Writes verdicts, and keeps those that cannot be written yet.
//!
//! Another session may hold a lock that one lease needs, and the database may reject one verdict.
//! Neither may hold the other leases: a statement that fails for such a reason is repeated lease by
//! lease. A lease that still fails is postponed. It stays in the ledger and counts as held, so its
//! finished jobs are not released, for as long as the worker may rely on its leases.

use std::sync::Arc;

use super::Settler;
use super::counts::{count, count_lost, pass_turns};
use super::rejected::{failed, with_plain_report};
use crate::error::{Error, Result};
use crate::pipeline::claim::LeaseId;
use crate::pipeline::follow_up::{LockWait, settle_and_store};
use crate::pipeline::settle::{Repeat, give_back, settle_done};
use crate::pipeline::settlement::Settlement;
use crate::pipeline::tallies::DoneLease;
use crate::sync::Instant;
use crate::sync::atomic::Ordering;
use crate::worker::ledger::DueLease;
use crate::worker::retry::{call_timeout, retry_unless_locked};
use crate::worker::state::State;

/// The maximum number of verdicts per statement, except for a single larger lease.
const VERDICTS: usize = 1000;

/// How many locks or answers a pass waits for in vain before it postpones the rest of its statement.
const MAX_WAITS: usize = 2;

/// Leases that could not be written, and why.
type Unwritten = (Vec<DueLease>, Error);

impl Settler<'_> {
    /// Writes what is due.
    pub(super) fn write(&mut self, due: Vec<DueLease>) {
        let due = due.into_iter();
        let due = due.filter_map(|lease| self.return_unstarted(lease));
        let (postponed, fresh): (Vec<_>, Vec<_>) = due.partition(DueLease::has_waited);
        let (done, mixed) = fresh.into_iter().partition(DueLease::is_done);
        self.write_statement(done);
        for statement in in_statements(mixed) {
            self.write_statement(statement);
        }
        for lease in postponed {
            self.write_statement(vec![lease]);
        }
    }

    /// Returns the jobs of a lease that no slot started, and then the lease if it has verdicts.
    ///
    /// This comes first: once the job before them in their group is settled, a later one could start before them.
    fn return_unstarted(&mut self, mut lease: DueLease) -> Option<DueLease> {
        if !lease.settlements.iter().any(Settlement::is_unstarted) {
            return Some(lease);
        }
        let (state, db_caller) = (self.state, &mut *self.db_caller);
        let all = lease.settlements.into_iter();
        let (unstarted, verdicts): (Vec<_>, Vec<_>) = all.partition(Settlement::is_unstarted);
        lease.settlements = verdicts;
        let unstarted: Arc<[Settlement]> = unstarted.into();
        let returned = retry_unless_locked(state, self.until, || {
            let (identity, jobs) = (state.identity.clone(), Arc::clone(&unstarted));
            db_caller.call(
                "return unstarted jobs",
                call_timeout(state),
                move |session| give_back(session, &identity, &jobs),
            )
        });
        match returned {
            Ok(returned) => state.count_released(returned),
            Err(error) => {
                lease.settlements.extend_from_slice(&unstarted);
                self.postpone(vec![lease], &error);
                return None;
            }
        }
        state.count_written(unstarted.len());
        if lease.settlements.is_empty() {
            self.end(&[lease]);
            return None;
        }
        Some(lease)
    }

    /// Writes leases with one statement, or lease by lease if that fails.
    fn write_statement(&mut self, leases: Vec<DueLease>) {
        let Err((mut leases, error)) = self.try_write(leases) else {
            return;
        };
        if leases.len() == 1 {
            return match self.write_apart(leases, error) {
                Ok(()) => {}
                Err((leases, error)) => self.postpone(leases, &error),
            };
        }
        if error.is_unavailable() && !error.is_locked() {
            return self.postpone(leases, &error);
        }
        log::warn!("{}: settling lease by lease: {error:#}", self.state);
        let (mut waits, mut unwritten, mut cause) = (0, Vec::new(), error);
        while let Some(lease) = leases.pop() {
            let written = self.try_write(vec![lease]);
            let written = written.or_else(|(lease, error)| self.write_apart(lease, error));
            if let Err((lease, error)) = written {
                waits += usize::from(error.is_unavailable());
                unwritten.extend(lease);
                cause = error;
            }
            if waits >= MAX_WAITS {
                unwritten.append(&mut leases);
            }
        }
        if !unwritten.is_empty() {
            self.postpone(unwritten, &cause);
        }
    }

    /// Writes leases with one statement. Returns those that could not be written.
    fn try_write(&mut self, leases: Vec<DueLease>) -> Result<(), Unwritten> {
        match leases.iter().all(DueLease::is_done) {
            true => self.write_done(leases),
            false => self.write_verdicts(leases),
        }
    }

    /// Writes what it can of one lease that could not be written because of a lock or of a verdict that the database rejects,
    /// so that one job does not hold or harm the others. Only jobs that need what an open transaction has locked wait for
    /// it. Returns the lease with what is not written.
    fn write_apart(&mut self, mut leases: Vec<DueLease>, error: Error) -> Result<(), Unwritten> {
        let (state, is_locked) = (self.state, error.is_locked());
        let needs_own = |one: &Settlement| !is_locked || one.may_wait();
        let mut all = leases.iter().flat_map(|lease| &lease.settlements);
        if error.is_unavailable() && !is_locked || !all.any(needs_own) {
            return Err((leases, error));
        }
        if !is_locked {
            log::error!("{state}: verdicts were rejected; settling them one by one: {error:#}");
        }
        let mut answers = Answers::of(&leases);
        let all = leases
            .iter_mut()
            .flat_map(|lease| lease.settlements.drain(..));
        let (own, others): (Vec<_>, Vec<_>) = all.partition(needs_own);
        let own = own.into_iter().map(|one| Arc::<[Settlement]>::from([one]));
        let others: Arc<[Settlement]> = others.into();
        let (mut cause, mut waits) = (error, 0);
        let (mut unwritten, mut tried) = (Vec::new(), Vec::new());
        for part in [others].into_iter().chain(own) {
            if waits == MAX_WAITS || part.is_empty() {
                unwritten.extend_from_slice(&part);
                continue;
            }
            if let Err(error) = self.settle_acceptable(&part, &mut answers) {
                waits += usize::from(error.is_unavailable());
                cause = error;
                tried.extend_from_slice(&part);
            }
        }
        // The next pass begins with those that this one has not tried.
        unwritten.append(&mut tried);
        if unwritten.is_empty() {
            self.end(&leases);
            return Ok(());
        }
        if let Some(lease) = leases.first_mut() {
            lease.settlements = unwritten;
        }
        Err((answers.mark(leases), cause))
    }

    /// Writes verdicts. If the database rejects the only one, its error report is reduced to a text that the database
    /// accepts; a job with rejected follow-ups fails.
    fn settle_acceptable(
        &mut self,
        settlements: &Arc<[Settlement]>,
        answers: &mut Answers,
    ) -> Result<()> {
        let (state, settled) = (
            self.state,
            self.settle(settlements, answers, LockWait::Short),
        );
        let (Err(error), [one]) = (&settled, &**settlements) else {
            return settled;
        };
        if error.is_unavailable() {
            return settled;
        }
        let acceptable = match one.has_follow_ups() {
            true => failed(one, error, state),
            false => with_plain_report(one),
        };
        let settled = self.settle(&[acceptable].into(), answers, LockWait::Short);
        settled.inspect_err(|error| {
            let job = one.meta.id;
            log::error!("{state} job={job}: could not be settled: {error:#}");
        })
    }

    fn write_done(&mut self, leases: Vec<DueLease>) -> Result<(), Unwritten> {
        if leases.is_empty() {
            return Ok(());
        }
        let (state, db_caller) = (self.state, &mut *self.db_caller);
        let done = |lease: &DueLease| DoneLease::of(lease.lease, &lease.settlements);
        let done: Arc<[DoneLease]> = leases.iter().map(done).collect();
        let mut answers = Answers::of(&leases);
        let written = retry_unless_locked(state, self.until, || {
            let (done, queue) = (Arc::clone(&done), state.config.queue.shared_name());
            let repeat = answers.repeat(state);
            answers.note(db_caller.call(
                "settle finished jobs",
                call_timeout(state),
                move |session| settle_done(session, &queue, &done, repeat),
            ))
        });
        let missing = match written {
            Ok(missing) => missing,
            Err(error) => return Err((answers.mark(leases), error)),
        };
        self.state.forget(&ids(&leases));
        state.count_written(verdicts(&leases));
        for done in &*done {
            if missing.contains(&done.lease) && answers.repeat(state) == Repeat::First {
                count_lost(state, done.jobs);
            } else {
                state.counts.done.fetch_add(done.jobs, Ordering::Relaxed);
            }
        }
        let of_all = leases.iter().flat_map(|lease| &lease.settlements);
        pass_turns(state, of_all.filter_map(|done| done.meta.group.clone()));
        Ok(())
    }

    fn write_verdicts(&mut self, mut leases: Vec<DueLease>) -> Result<(), Unwritten> {
        let of_all = leases
            .iter_mut()
            .flat_map(|lease| lease.settlements.drain(..));
        let settlements: Arc<[Settlement]> = of_all.collect();
        let mut answers = Answers::of(&leases);
        let lock_wait = match leases.iter().any(DueLease::has_waited) {
            true => LockWait::Short,
            false => LockWait::Usual,
        };
        let Err(error) = self.settle(&settlements, &mut answers, lock_wait) else {
            self.end(&leases);
            return Ok(());
        };
        for settlement in &*settlements {
            let mut its = leases.iter_mut();
            if let Some(lease) = its.find(|lease| lease.lease == settlement.lease) {
                lease.settlements.push(settlement.clone());
            }
        }
        Err((answers.mark(leases), error))
    }

    /// Writes verdicts with one statement, and counts them.
    fn settle(
        &mut self,
        settlements: &Arc<[Settlement]>,
        answers: &mut Answers,
        lock_wait: LockWait,
    ) -> Result<()> {
        let (state, db_caller) = (self.state, &mut *self.db_caller);
        let written = retry_unless_locked(state, self.until, || {
            let (settlements, identity) = (Arc::clone(settlements), state.identity.clone());
            let repeat = answers.repeat(state);
            answers.note(
                db_caller.call("settle jobs", call_timeout(state), move |session| {
                    settle_and_store(session, &identity, &settlements, repeat, lock_wait)
                }),
            )
        })?;
        state.count_written(settlements.len());
        let all_are_written = answers.repeat(state) == Repeat::Again;
        let is_written =
            |one: &&Settlement| all_are_written || written.contains(&(one.lease, one.meta.id));
        let of_written = settlements.iter().filter(is_written);
        count(state, &mut self.kept.log, of_written);
        if !all_are_written {
            count_lost(state, (settlements.len() - written.len()) as u64);
        }
        Ok(())
    }

    /// Forgets written leases without remaining jobs.
    fn end(&mut self, leases: &[DueLease]) {
        let ended = leases.iter().filter(|lease| lease.ends);
        let ended: Vec<LeaseId> = ended.map(|lease| lease.lease).collect();
        self.state.forget(&ended);
    }

    /// Keeps leases that could not be written. Gives them up if the worker cannot rely on them.
    fn postpone(&mut self, leases: Vec<DueLease>, error: &Error) {
        let (state, now) = (self.state, Instant::now());
        if !state.trust.holds(now) {
            log::error!("{state}: verdicts could not be settled: {error:#}");
            return self.give_up(&leases);
        }
        log::warn!("{state}: verdicts not settled yet, retrying later: {error:#}");
        for lease in leases {
            self.kept.ledger.postpone(lease, now);
        }
    }

    /// Gives up verdicts. Their jobs return when their leases end.
    pub(super) fn give_up(&mut self, leases: &[DueLease]) {
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
        for lease in leases {
            self.kept.ledger.gone(lease.lease);
        }
        self.state.forget(&ids(leases));
    }
}

/// Whether an earlier write of these leases may have taken effect, because its answer was lost.
struct Answers {
    one_was_lost: bool,
}

impl Answers {
    fn of(leases: &[DueLease]) -> Answers {
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

    fn mark(&self, mut leases: Vec<DueLease>) -> Vec<DueLease> {
        for lease in &mut leases {
            lease.is_unanswered |= self.one_was_lost;
        }
        leases
    }
}

/// Splits verdicts into statements, never within a lease.
fn in_statements(leases: Vec<DueLease>) -> Vec<Vec<DueLease>> {
    let (mut statements, mut verdicts): (Vec<Vec<DueLease>>, _) = (Vec::new(), 0);
    for lease in leases {
        let more = lease.settlements.len();
        match statements.last_mut() {
            Some(statement) if verdicts < VERDICTS => statement.push(lease),
            Some(_) | None => {
                statements.push(vec![lease]);
                verdicts = 0;
            }
        }
        verdicts += more;
    }
    statements
}

fn verdicts(leases: &[DueLease]) -> usize {
    leases.iter().map(|lease| lease.settlements.len()).sum()
}

fn ids(leases: &[DueLease]) -> Vec<LeaseId> {
    leases.iter().map(|lease| lease.lease).collect()
}
