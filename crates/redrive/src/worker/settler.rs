//! Collects verdicts from the slots and writes them in batches.

mod failure_log;
mod counts;
mod rejected;
mod releases;
mod statements;
mod writes;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::db::caller::DbCaller;
use crate::error::Result;
use crate::job::job::{JobId, OpenTransaction};
use crate::pipeline::claim::LeaseId;
use crate::pipeline::settlement::Settlement;
use crate::sync::Instant;
use crate::sync::channel::{Receiver, RecvTimeoutError, Sender};
use crate::worker::breaker_reports::write_reports;
use crate::worker::breaker_state::BreakerReport;
use crate::worker::ledger::{Flush, Ledger};
use crate::worker::state::State;
use crate::worker::wake_mode::Wake;
use counts::log_suppressed;
use failure_log::FailureLog;

/// The maximum number of messages read before writing.
const MESSAGES: usize = 4096;

/// A message to the settler.
pub(crate) enum Message {
    /// Jobs have their verdicts.
    Settled(Vec<Settlement>),
    /// A job was not started. It is released when its lease ends.
    Unrun { lease: LeaseId },
    /// Jobs waited too long for a slot, or the job before them did not succeed. They are released at once.
    Unstarted { lease: LeaseId, jobs: Vec<JobId> },
    /// A breaker must open, or its probe ended. Follows the verdict that caused it.
    Breaker(BreakerReport),
    /// The transaction of a handler that was given up must end.
    EndTransaction(OpenTransaction),
    /// Write everything, release the rest and end.
    Finish(Finish),
}

/// The request to end the settler.
pub(crate) struct Finish {
    /// Verdicts of slots whose handlers still run.
    pub(crate) settlements: Vec<Settlement>,
    /// Jobs whose handlers still run. They are released too, with a counted refund.
    pub(crate) started: Vec<JobId>,
    /// The transactions of these handlers.
    pub(crate) transactions: Vec<OpenTransaction>,
    /// How long to retry if the database does not answer.
    pub(crate) until: Instant,
    /// Receives the released jobs.
    pub(crate) reply: Sender<Result<Vec<JobId>>>,
}

/// Settles until the worker ends.
pub(crate) fn work(
    state: &Arc<State>,
    db_caller: DbCaller,
    inbox: &Receiver<Message>,
    wake: &Sender<Wake>,
) {
    let settler = Settler {
        state,
        db_caller,
        wake,
        ledger: Ledger::default(),
        reports: Vec::new(),
        transactions: Vec::new(),
        log: FailureLog::default(),
        until: Instant::now(),
    };
    settler.run(inbox);
}

struct Settler<'a> {
    state: &'a Arc<State>,
    db_caller: DbCaller,
    wake: &'a Sender<Wake>,
    ledger: Ledger,
    /// The breaker changes to write.
    reports: Vec<BreakerReport>,
    /// The transactions of handlers to end.
    transactions: Vec<OpenTransaction>,
    log: FailureLog,
    /// How long this pass may retry while the database is unavailable.
    until: Instant,
}

impl Settler<'_> {
    fn run(mut self, inbox: &Receiver<Message>) {
        loop {
            let due = self.ledger.next_due().into_iter();
            let first = match due.chain(self.log.next_due()).min() {
                Some(due) => inbox.recv_deadline(due),
                None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let now = Instant::now();
            // After one lease the database would reject the results.
            self.until = now + self.state.config.lease;
            let finish = match first {
                Ok(first) => {
                    let messages = std::iter::once(first).chain(inbox.try_iter().take(MESSAGES));
                    self.receive(messages, now)
                }
                Err(RecvTimeoutError::Timeout) => None,
                // The worker was dropped. Write the known verdicts; the other jobs return when their
                // lease expires.
                Err(RecvTimeoutError::Disconnected) => {
                    self.until = now;
                    self.write_all();
                    return;
                }
            };
            if let Some(finish) = finish {
                return self.finish(finish);
            }
            let due = self.ledger.take_due(now, Flush::Due);
            self.write(due);
            self.write_reports();
            self.end_transactions();
            log_suppressed(self.state, self.log.take_due(now));
        }
    }

    /// Records messages, and releases jobs that waited too long. Returns the request to end.
    fn receive(&mut self, messages: impl Iterator<Item = Message>, now: Instant) -> Option<Finish> {
        let mut unstarted: BTreeMap<LeaseId, Vec<JobId>> = BTreeMap::new();
        for message in messages {
            match message {
                Message::Settled(settlements) => self.record(settlements, now),
                Message::Unrun { lease } => {
                    self.open(lease, now);
                    self.ledger.unrun(lease);
                }
                Message::Unstarted { lease, jobs } => {
                    self.open(lease, now);
                    unstarted.entry(lease).or_default().extend(jobs);
                }
                Message::Breaker(report) => self.reports.push(report),
                Message::EndTransaction(open) => self.transactions.push(open),
                Message::Finish(finish) => return Some(finish),
            }
        }
        for (lease, jobs) in unstarted {
            self.release_unstarted(lease, jobs);
        }
        None
    }

    fn record(&mut self, settlements: Vec<Settlement>, now: Instant) {
        for settlement in settlements {
            self.open(settlement.lease, now);
            if !self.ledger.knows(settlement.lease) {
                // The lease was given up.
                self.state.count_written(1);
            }
            self.ledger.settled(settlement, now);
        }
    }

    /// Adds a lease to the ledger at the first message about its jobs. A message at each claim would
    /// wake this thread before the slots.
    fn open(&mut self, lease: LeaseId, now: Instant) {
        if !self.ledger.knows(lease)
            && let Some(jobs) = self.state.jobs_of(lease)
        {
            self.ledger.open(lease, jobs, now);
        }
    }

    /// Writes everything, releases the rest and replies.
    fn finish(mut self, finish: Finish) {
        self.until = finish.until;
        self.record(finish.settlements, Instant::now());
        let mut started = finish.started;
        started.extend(self.write_all());
        self.write_reports();
        let released = self.release_all(&started);
        self.transactions.extend(finish.transactions);
        self.end_transactions();
        // The caller of `stop` may have given up.
        _ = finish.reply.send(released);
    }

    /// Writes all verdicts, and gives up those that cannot be written now. Returns the jobs of these.
    fn write_all(&mut self) -> Vec<JobId> {
        let due = self.ledger.take_due(Instant::now(), Flush::All);
        self.write(due);
        let unwritten = self.ledger.take_due(Instant::now(), Flush::All).postponed;
        self.give_up(&unwritten);
        log_suppressed(self.state, self.log.take_all());
        let settlements = unwritten.iter().flat_map(|lease| &lease.settlements);
        settlements.map(|unwritten| unwritten.meta.id).collect()
    }

    fn write_reports(&mut self) {
        write_reports(
            self.state,
            &mut self.db_caller,
            &mut self.reports,
            self.wake,
            self.until,
        );
    }

    /// Forgets leases. After the last suspect, wakes the fetcher, because a job that waits to be the
    /// only suspect sends no notification.
    fn forget(&self, leases: &[LeaseId]) {
        if self.state.forget(leases) {
            _ = self.wake.try_send(Wake::Work);
        }
    }
}
