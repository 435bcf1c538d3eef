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
use crate::pipeline::settle::{Repeat, settle_done};
use crate::pipeline::settlement::Settlement;
use crate::pipeline::tallies::DoneLease;
use crate::sync::Instant;
use crate::sync::atomic::Ordering;
use crate::worker::ledger::{DueLease, Rest};
use crate::worker::retry::{call_timeout, may_have_committed, retry_unless_locked};
use crate::worker::state::State;

/// The maximum number of verdicts per statement, except for a single larger lease.
const VERDICTS: usize = 1000;

/// How many lock timeouts a pass waits for before it postpones the other leases of its statement.
const MAX_LOCK_WAITS: usize = 2;

/// Leases that could not be written, and why.
type Unwritten = (Vec<DueLease>, Error);

impl Settler<'_> {
    /// Writes what is due.
    pub(super) fn write(&mut self, due: Vec<DueLease>) {
        let (postponed, fresh): (Vec<_>, Vec<_>) = due.into_iter().partition(DueLease::has_waited);
        let (done, mixed) = fresh.into_iter().partition(DueLease::is_done);
        self.write_statement(done);
        for statement in in_statements(mixed) {
            self.write_statement(statement);
        }
        for lease in postponed {
            self.write_statement(vec![lease]);
        }
    }

    /// Writes leases with one statement, or lease by lease if that fails.
    fn write_statement(&mut self, leases: Vec<DueLease>) {
        let Err((mut leases, error)) = self.try_write(leases) else {
            return;
        };
        if leases.len() == 1 {
            return match self.write_unlocked(leases, error) {
                Ok(()) => {}
                Err((leases, error)) => self.postpone(leases, &error),
            };
        }
        if error.is_unavailable() && !error.is_locked() {
            return self.postpone(leases, &error);
        }
        log::warn!("{}: settling lease by lease: {error:#}", self.state);
        let (mut lock_waits, mut unwritten, mut cause) = (0, Vec::new(), error);
        while let Some(lease) = leases.pop() {
            let written = self.try_write(vec![lease]);
            let written = written.or_else(|(lease, error)| self.write_unlocked(lease, error));
            if let Err((lease, error)) = written {
                lock_waits += usize::from(error.is_locked());
                unwritten.extend(lease);
                cause = error;
            }
            if lock_waits >= MAX_LOCK_WAITS {
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

    /// Writes what it can of a lease that could not be written because of a lock: only jobs that need what an open transaction
    /// has locked wait for it. Returns the lease with these.
    fn write_unlocked(&mut self, mut leases: Vec<DueLease>, error: Error) -> Result<(), Unwritten> {
        if !error.is_locked() {
            return Err((leases, error));
        }
        let mut answers = Answers::of(&leases);
        let all = leases
            .iter_mut()
            .flat_map(|lease| lease.settlements.drain(..));
        let (waiting, others): (Vec<_>, Vec<_>) = all.partition(Settlement::may_wait);
        let mut parts: Vec<Vec<Settlement>> = waiting.into_iter().map(|one| vec![one]).collect();
        let (mut cause, mut lock_waits, mut written, mut unwritten) = (error, 0, 0, Vec::new());
        match parts.is_empty() {
            true => unwritten = others,
            false => parts.push(others),
        }
        while let Some(part) = parts.pop() {
            if lock_waits == MAX_LOCK_WAITS || part.is_empty() {
                unwritten.extend(part);
                continue;
            }
            match self.settle(&part.as_slice().into(), &mut answers, LockWait::Short) {
                Ok(()) => written += part.len(),
                Err(error) => {
                    lock_waits += 1;
                    cause = error;
                    unwritten.extend(part);
                }
            }
        }
        if unwritten.is_empty() {
            self.end(&leases);
            return Ok(());
        }
        for lease in &mut leases {
            let counted = written.min(lease.counted);
            lease.counted -= counted;
            self.state.count_written(counted);
        }
        if let Some(lease) = leases.first_mut() {
            lease.settlements = unwritten;
        }
        Err((answers.mark(leases), cause))
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
        state.count_written(counted(&leases));
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
        let (settlements, error) = match self.settle(&settlements, &mut answers, lock_wait) {
            Ok(()) => (Vec::new(), None),
            Err(error) if leases.len() == 1 && !error.is_unavailable() => {
                self.write_rejected(&settlements, &error, &mut answers)
            }
            Err(error) => (settlements.to_vec(), Some(error)),
        };
        let Some(error) = error else {
            self.end(&leases);
            return Ok(());
        };
        for settlement in settlements {
            if let Some(lease) = leases
                .iter_mut()
                .find(|lease| lease.lease == settlement.lease)
            {
                lease.settlements.push(settlement);
            }
        }
        Err((answers.mark(leases), error))
    }

    /// Settles each job of a rejected lease alone, so that one bad verdict does not hold or harm the others.
    /// Of a rejected one, the error report is reduced to a text that the database accepts; a job with rejected
    /// follow-ups fails. Returns the verdicts that are still rejected.
    fn write_rejected(
        &mut self,
        settlements: &[Settlement],
        error: &Error,
        answers: &mut Answers,
    ) -> (Vec<Settlement>, Option<Error>) {
        let state = self.state;
        log::error!("{state}: verdicts were rejected; settling them one by one: {error:#}");
        let (mut rejected, mut last) = (Vec::new(), None);
        for settlement in settlements {
            let settled = match self.settle(&[settlement.clone()].into(), answers, LockWait::Usual)
            {
                Err(error) if !error.is_unavailable() => {
                    let acceptable = match settlement.has_follow_ups() {
                        true => failed(settlement, &error, &state.config),
                        false => with_plain_report(settlement),
                    };
                    self.settle(&[acceptable].into(), answers, LockWait::Usual)
                }
                settled => settled,
            };
            if let Err(error) = settled {
                let job = settlement.meta.id;
                log::error!("{state} job={job}: could not be settled: {error:#}");
                rejected.push(settlement.clone());
                last = Some(error);
            }
        }
        (rejected, last)
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

    /// Forgets written leases without remaining jobs, and releases their unrun jobs.
    fn end(&mut self, leases: &[DueLease]) {
        self.state.count_written(counted(leases));
        let with = |rest| {
            let leases = leases.iter().filter(move |lease| lease.rest == rest);
            leases.map(|lease| lease.lease).collect::<Vec<_>>()
        };
        self.state.forget(&with(Rest::Nothing));
        self.release_unrun(&with(Rest::Unrun));
    }

    /// Keeps leases that could not be written. Gives them up if the worker cannot rely on them.
    fn postpone(&mut self, leases: Vec<DueLease>, error: &Error) {
        let (state, now) = (self.state, Instant::now());
        if !state.trust.holds(now) {
            log::error!("{state}: verdicts could not be settled: {error:#}");
            return self.give_up(&leases);
        }
        log::warn!("{state}: verdicts not settled yet, retrying later: {error:#}");
        for mut lease in leases {
            if !error.is_unavailable() {
                // The database may reject them for ever, and must not hold up claims for as long.
                state.count_written(std::mem::take(&mut lease.counted));
            }
            self.kept.ledger.postpone(lease, now);
        }
    }

    /// Gives up verdicts. Their jobs return when their leases end.
    pub(super) fn give_up(&mut self, leases: &[DueLease]) {
        let results: usize = leases.iter().map(|lease| lease.settlements.len()).sum();
        if results > 0 {
            let state = self.state;
            log::error!(
                "{state}: {results} jobs will run again, because they could not be settled"
            );
            count_lost(state, results as u64);
        }
        self.state.count_written(counted(leases));
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
        self.one_was_lost |= answer.as_ref().is_err_and(may_have_committed);
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

fn counted(leases: &[DueLease]) -> usize {
    leases.iter().map(|lease| lease.counted).sum()
}

fn ids(leases: &[DueLease]) -> Vec<LeaseId> {
    leases.iter().map(|lease| lease.lease).collect()
}
