//! The settler: one thread that writes verdicts, many at a time.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use crate::claim::LeaseId;
use crate::error::Result;
use crate::failure::Story;
use crate::floor::Instant;
use crate::floor::atomic::Ordering;
use crate::floor::channel::{Receiver, RecvTimeoutError, Sender};
use crate::job::JobId;
use crate::judge::Verdict;
use crate::lane::Lane;
use crate::settle::{Held, Settlement, give_back as give_jobs_back, release, settle, settle_done};
use crate::worker::cells::DoneLease;
use crate::worker::fetch::Wake;
use crate::worker::gates::Report;
use crate::worker::ledger::{Due, Flush, Ledger};
use crate::worker::reports::tell;
use crate::worker::state::{State, lock};
use crate::worker::trying::{call_timeout, trying};

/// The most messages taken in before something is written.
const MESSAGES: usize = 4096;
/// The most verdicts of one statement, but for a single lease that has more.
const VERDICTS: usize = 1000;

/// What the settler is told.
#[expect(
    clippy::large_enum_variant,
    reason = "all but a few are the largest one, and a box each would cost more than the copy"
)]
pub(crate) enum Message {
    /// A lease was claimed with this many jobs. Comes before anything about its jobs.
    Opened { lease: LeaseId, jobs: usize },
    /// A job has its verdict.
    Settled(Settlement),
    /// A job of the lease was not started and goes back.
    Unrun { lease: LeaseId },
    /// A job of the lease was not started and has waited for too long: it goes back at once.
    Unbegun { lease: LeaseId, job: JobId },
    /// The lease ended some other way: in its handler's transaction, or lost.
    Gone { lease: LeaseId },
    /// A breaker is to be opened, or its probe has ended. Comes after the verdict that tells so.
    Report(Report),
    /// Write everything, give back the rest, and end.
    Finish(Finish),
}

/// The end of a worker.
pub(crate) struct Finish {
    /// Jobs whose handlers still run: they go back too, and their refunds are counted.
    pub(crate) started: Vec<JobId>,
    /// Until when to try when the database does not answer.
    pub(crate) until: Instant,
    /// Told when it is done.
    pub(crate) reply: Sender<Result<()>>,
}

/// Settles until told to finish, or until nobody can tell anything any more.
pub(crate) fn work(
    state: &Arc<State>,
    mut lane: Lane,
    inbox: &Receiver<Message>,
    wake: &Sender<Wake>,
) {
    let mut ledger = Ledger::default();
    let mut reports = Vec::new();
    loop {
        let first = match ledger.next_due() {
            Some(due) => inbox.recv_deadline(due),
            None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let now = Instant::now();
        let mut unbegun: BTreeMap<LeaseId, Vec<JobId>> = BTreeMap::new();
        let messages = match first {
            Ok(first) => std::iter::once(first).chain(inbox.try_iter().take(MESSAGES)),
            Err(RecvTimeoutError::Timeout) => {
                let due = ledger.take_due(now, Flush::Ripe);
                let given_up = write(state, &mut lane, due, wake, until_distrusted(state));
                for lease in given_up {
                    ledger.gone(lease);
                }
                continue;
            }
            // The worker was dropped: what is known is written, the rest comes back by itself.
            Err(RecvTimeoutError::Disconnected) => {
                let due = ledger.take_due(now, Flush::Everything);
                _ = write(state, &mut lane, due, wake, now);
                return;
            }
        };
        for message in messages {
            match message {
                Message::Opened { lease, jobs } => ledger.open(lease, jobs, now),
                Message::Settled(settlement) => ledger.settled(settlement, now),
                Message::Unrun { lease } => ledger.unrun(lease),
                Message::Unbegun { lease, job } => unbegun.entry(lease).or_default().push(job),
                Message::Report(report) => reports.push(report),
                Message::Gone { lease } => {
                    ledger.gone(lease);
                    forget(state, &[lease], wake);
                }
                Message::Finish(finish) => {
                    let due = ledger.take_due(now, Flush::Everything);
                    _ = write(state, &mut lane, due, wake, finish.until);
                    tell(state, &mut lane, &mut reports, wake, finish.until);
                    let released = release_all(state, &mut lane, finish.started, finish.until);
                    // The one who stops may have given up waiting.
                    _ = finish.reply.send(released);
                    return;
                }
            }
        }
        for (lease, jobs) in unbegun {
            hurry_back(state, &mut lane, &mut ledger, lease, jobs);
        }
        let due = ledger.take_due(now, Flush::Ripe);
        let given_up = write(state, &mut lane, due, wake, until_distrusted(state));
        for lease in given_up {
            ledger.gone(lease);
        }
        tell(
            state,
            &mut lane,
            &mut reports,
            wake,
            until_distrusted(state),
        );
    }
}

/// How long writing is tried: beyond a lease time nothing of it would be accepted.
fn until_distrusted(state: &State) -> Instant {
    Instant::now() + state.config.lease
}

/// Writes what is due, trying again while the database is away. Answers the leases of which
/// something could not be written: of them nothing more is accounted for, and they come back.
#[must_use = "these leases are gone"]
fn write(
    state: &Arc<State>,
    lane: &mut Lane,
    due: Due,
    wake: &Sender<Wake>,
    until: Instant,
) -> HashSet<LeaseId> {
    let mut given_up = HashSet::new();
    if !due.done.is_empty() {
        write_done(state, lane, due.done, wake, until);
    }
    for (settlements, ended) in in_statements(due.settlements, &due.ended) {
        given_up.extend(write_verdicts(state, lane, settlements, ended, wake, until));
    }
    if !due.released.is_empty() {
        give_back(state, lane, &due.released, wake, until);
    }
    forget(state, &given_up.iter().copied().collect::<Vec<_>>(), wake);
    given_up
}

/// Forgets leases. When a suspect was among them, the next one may begin: the fetcher looks for it,
/// since of jobs that were there before nobody is told.
fn forget(state: &State, leases: &[LeaseId], wake: &Sender<Wake>) {
    if state.forget(leases).is_some() {
        _ = wake.try_send(Wake::Work);
    }
}

fn write_done(
    state: &Arc<State>,
    lane: &mut Lane,
    done: Vec<DoneLease>,
    wake: &Sender<Wake>,
    until: Instant,
) {
    let leases: Vec<LeaseId> = done.iter().map(|done| done.lease).collect();
    let done: Arc<[DoneLease]> = done.into();
    let written = trying(state, until, || {
        let (done, queue) = (Arc::clone(&done), state.config.queue.shared_name());
        lane.call(
            "settle finished jobs",
            call_timeout(state),
            move |session| settle_done(session, &queue, &done),
        )
    });
    forget(state, &leases, wake);
    let lost = written.unwrap_or_else(|error| {
        log::error!(
            "finished jobs of queue `{}` could not be settled: {error}",
            state.queue()
        );
        leases.clone()
    });
    for done in &*done {
        if lost.contains(&done.lease) {
            lost_results(state, done.jobs);
        } else {
            state.counts.done.fetch_add(done.jobs, Ordering::Relaxed);
        }
    }
}

fn write_verdicts(
    state: &Arc<State>,
    lane: &mut Lane,
    settlements: Vec<Settlement>,
    ended: Vec<LeaseId>,
    wake: &Sender<Wake>,
    until: Instant,
) -> HashSet<LeaseId> {
    let shared = Arc::new((settlements, ended));
    let written = trying(state, until, || {
        let (shared, settler) = (Arc::clone(&shared), state.settler.clone());
        lane.call("settle jobs", call_timeout(state), move |session| {
            settle(session, &settler, &shared.0)
        })
    });
    let (settlements, ended) = &*shared;
    match written {
        Ok(written) => {
            forget(state, ended, wake);
            count(
                state,
                settlements
                    .iter()
                    .filter(|one| written.contains(&(one.lease, one.facts.id))),
                wake,
            );
            lost_results(state, (settlements.len() - written.len()) as u64);
            HashSet::new()
        }
        Err(error) if error.is_unavailable() => {
            log::error!(
                "{} results of queue `{}` could not be settled: {error}",
                settlements.len(),
                state.queue()
            );
            lost_results(state, settlements.len() as u64);
            settlements.iter().map(|one| one.lease).collect()
        }
        Err(error) => bare(state, lane, &shared, &error, wake, until),
    }
}

/// The database refuses a verdict itself. That must not hold jobs for ever: each is settled
/// alone, and what is refused again dies with a story that cannot be refused.
fn bare(
    state: &Arc<State>,
    lane: &mut Lane,
    refused: &(Vec<Settlement>, Vec<LeaseId>),
    error: &crate::Error,
    wake: &Sender<Wake>,
    until: Instant,
) -> HashSet<LeaseId> {
    let mut given_up = HashSet::new();
    log::error!(
        "verdicts of queue `{}` were refused: {error:?}",
        state.queue()
    );
    let (settlements, ended) = refused;
    for settlement in settlements {
        if given_up.contains(&settlement.lease) {
            lost_results(state, 1);
            continue;
        }
        let verdict = match &settlement.verdict {
            Verdict::Done => Verdict::Done,
            Verdict::Retry { delay, .. }
            | Verdict::Snooze { delay }
            | Verdict::Outage { delay, .. } => Verdict::Snooze { delay: *delay },
            Verdict::Dead { reason, .. } => Verdict::Dead {
                reason: *reason,
                story: Story::new(
                    "unrecorded",
                    "its story was refused by the database".to_owned(),
                    None,
                ),
            },
        };
        let alone = Arc::new(vec![Settlement {
            lease: settlement.lease,
            facts: settlement.facts.clone(),
            run_time: settlement.run_time,
            verdict,
            in_outage: settlement.in_outage,
            cause: settlement.cause,
            age: settlement.age,
        }]);
        let written = trying(state, until, || {
            let (alone, settler) = (Arc::clone(&alone), state.settler.clone());
            lane.call("settle a job", call_timeout(state), move |session| {
                settle(session, &settler, &alone)
            })
        });
        if let Err(error) = written {
            log::error!(
                "job {} of queue `{}` could not be settled: {error:?}",
                settlement.facts.id,
                state.queue()
            );
            lost_results(state, 1);
            given_up.insert(settlement.lease);
        }
    }
    forget(state, ended, wake);
    given_up
}

/// Gives jobs back that wait behind slow ones; with their lease, when nothing else is left of it or
/// the database does not want it otherwise.
fn hurry_back(
    state: &Arc<State>,
    lane: &mut Lane,
    ledger: &mut Ledger,
    lease: LeaseId,
    jobs: Vec<JobId>,
) {
    let count = jobs.len();
    let jobs: Arc<[JobId]> = jobs.into();
    let given = match ledger.keeps_more_than(lease, count) {
        true => trying(state, until_distrusted(state), || {
            let jobs = Arc::clone(&jobs);
            lane.call("give jobs back", call_timeout(state), move |session| {
                give_jobs_back(session, lease, &jobs)
            })
        }),
        false => Ok(0),
    };
    match given {
        Ok(0) => (0..count).for_each(|_| ledger.unrun(lease)),
        Ok(given) => {
            state.count_released(given);
            ledger.given_back(lease, count);
        }
        Err(error) => {
            log::warn!("queue `{}`: {error}", state.queue());
            (0..count).for_each(|_| ledger.unrun(lease));
        }
    }
}

/// Gives the unrun jobs of these leases back.
fn give_back(
    state: &Arc<State>,
    lane: &mut Lane,
    leases: &[LeaseId],
    wake: &Sender<Wake>,
    until: Instant,
) {
    forget(state, leases, wake);
    let held = Held::These(leases.to_vec());
    let released = trying(state, until, || {
        let (held, worker) = (held.clone(), state.settler.worker);
        lane.call("release jobs", call_timeout(state), move |session| {
            release(session, worker, &held, &[])
        })
    });
    match released {
        Ok(released) => state.count_released(released),
        Err(error) => log::warn!(
            "jobs of queue `{}` could not be released, their lease runs out: {error}",
            state.queue()
        ),
    }
}

/// The end: everything that is still held goes back.
fn release_all(
    state: &Arc<State>,
    lane: &mut Lane,
    started: Vec<JobId>,
    until: Instant,
) -> Result<()> {
    let started: Arc<[JobId]> = started.into();
    let released = trying(state, until, || {
        let (started, worker) = (Arc::clone(&started), state.settler.worker);
        lane.call("release jobs", call_timeout(state), move |session| {
            release(session, worker, &Held::All, &started)
        })
    });
    lock(&state.held).clear();
    state.count_released(released?);
    Ok(())
}

/// Cuts verdicts into statements, never in the middle of a lease.
fn in_statements(
    settlements: Vec<Settlement>,
    ended: &[LeaseId],
) -> Vec<(Vec<Settlement>, Vec<LeaseId>)> {
    let mut statements: Vec<(Vec<Settlement>, Vec<LeaseId>)> = Vec::new();
    let mut last: Option<LeaseId> = None;
    for settlement in settlements {
        let new_lease = last.replace(settlement.lease) != Some(settlement.lease);
        if statements
            .last()
            .is_none_or(|(verdicts, _)| new_lease && verdicts.len() >= VERDICTS)
        {
            statements.push((Vec::new(), Vec::new()));
        }
        if let Some((verdicts, ends)) = statements.last_mut() {
            if new_lease && ended.contains(&settlement.lease) {
                ends.push(settlement.lease);
            }
            verdicts.push(settlement);
        }
    }
    statements
}

fn count<'a>(state: &State, written: impl Iterator<Item = &'a Settlement>, wake: &Sender<Wake>) {
    let counts = &state.counts;
    let mut next_due: Option<Duration> = None;
    for settlement in written {
        let (counter, delay) = match &settlement.verdict {
            Verdict::Done => (&counts.done, None),
            Verdict::Retry { delay, .. } => (&counts.retried, Some(*delay)),
            Verdict::Snooze { delay } => (&counts.snoozed, Some(*delay)),
            Verdict::Outage { delay, .. } => (&counts.outages, Some(*delay)),
            Verdict::Dead { reason, story } => {
                log::warn!(
                    "job {} of queue `{}` died, {reason}: {}",
                    settlement.facts.id,
                    settlement.facts.queue,
                    story.class
                );
                (&counts.dead, None)
            }
        };
        counter.fetch_add(1, Ordering::Relaxed);
        next_due = next_due.into_iter().chain(delay).min();
    }
    if let Some(delay) = next_due {
        // Full means that the fetcher will look anyway.
        _ = wake.try_send(Wake::Due(Instant::now() + delay));
    }
}

fn lost_results(state: &State, results: u64) {
    if results > 0 {
        state.counts.lost.fetch_add(results, Ordering::Relaxed);
        log::warn!(
            "{results} results of queue `{}` were refused: their leases are lost",
            state.queue()
        );
    }
}
