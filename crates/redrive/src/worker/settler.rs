//! Collects verdicts from the slots and writes them in batches.

mod failure_log;
mod counts;
mod rejected;
mod releases;
mod reports;
mod writes;

use std::cell::RefCell;
use std::sync::Arc;

use crate::db::caller::DbCaller;
use crate::db::session::Session;
use crate::error::Result;
use crate::job::job::{JobId, OpenTransaction};
use crate::pipeline::settlement::Settlement;
use crate::sync::Instant;
use crate::sync::channel::{Receiver, RecvTimeoutError, Sender};
use crate::worker::breaker_state::BreakerReport;
use crate::worker::ledger::{Flush, Ledger};
use crate::worker::queues::Queues;
use crate::worker::retry::call_timeout;
use crate::worker::slot_state::RunningJob;
use crate::worker::state::State;
use counts::log_suppressed;
use failure_log::{FailureLog, PER_LINE};

/// The maximum number of messages read before writing.
const MESSAGES: usize = 4096;

/// A message to the settler.
pub(crate) enum Message {
    /// Jobs have their verdicts, or return because no slot started them. Each with the place of its queue.
    Settled(Vec<(usize, Settlement)>),
    /// A breaker must open, or its probe ended. Follows the verdict that caused it.
    Breaker(BreakerReport),
    /// The transaction of a handler that was given up must end.
    EndTransaction(OpenTransaction),
    /// Write everything, release the rest and end.
    Finish {
        cut_off: CutOff,
        /// How long to retry if the database does not answer.
        until: Instant,
        /// For each queue, the jobs whose handlers still run and that were released, unless the database rejected the
        /// release.
        reply: Sender<Vec<Result<Vec<JobId>>>>,
    },
}

/// The jobs whose handlers still run at a stop.
pub(crate) struct CutOff {
    /// All jobs that have started, including those whose slots are about to judge them. They are released too, with a
    /// counted refund.
    pub(crate) started: Vec<JobId>,
    /// Those of them without a verdict that the stop took from their slots. Their transactions end.
    pub(crate) running: Vec<RunningJob>,
}

/// Settles until the worker ends.
pub(crate) fn work(queues: &Queues, db_caller: &mut DbCaller, inbox: &Receiver<(usize, Message)>) {
    let db_caller = RefCell::new(db_caller);
    let settlers = queues.iter().map(|state| Settler {
        state,
        db_caller: &db_caller,
        ledger: Ledger::default(),
        reports: Vec::new(),
        log: FailureLog::default(),
        until: Instant::now(),
    });
    let mut settlers: Vec<Settler<'_>> = settlers.collect();
    // Those of handlers, to end.
    let mut transactions = Vec::new();
    loop {
        let first = match settlers.iter().filter_map(Settler::next_due).min() {
            Some(due) => inbox.recv_deadline(due),
            None => inbox.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        let is_dropped = matches!(first, Err(RecvTimeoutError::Disconnected));
        let now = Instant::now();
        for (queue, message) in first.into_iter().chain(inbox.try_iter().take(MESSAGES)) {
            match message {
                Message::Settled(verdicts) => {
                    for (queue, verdict) in verdicts {
                        settlers[queue].record(verdict, now);
                    }
                }
                Message::Breaker(report) => settlers[queue].reports.push(report),
                Message::EndTransaction(open) => transactions.push(open),
                Message::Finish {
                    cut_off,
                    until,
                    reply,
                } => {
                    // First, because the verdicts may need their locks.
                    let running = cut_off.running.iter();
                    transactions.extend(running.filter_map(|it| it.signal.transaction.get()));
                    settlers[0].end_transactions(&mut transactions);
                    let stopped = settlers.iter_mut().map(|settler| {
                        settler.until = until;
                        settler.finish(&cut_off)
                    });
                    let stopped = stopped.collect();
                    // The caller of `stop` may have given up.
                    _ = reply.send(stopped);
                    return;
                }
            }
        }
        for settler in &mut settlers {
            if is_dropped {
                // Write the known verdicts; the other jobs return when their lease expires.
                settler.until = now;
                settler.write_all();
            } else {
                // After one lease the database would reject the results.
                settler.until = now + settler.state.config.lease;
                settler.write_due(now);
            }
        }
        settlers[0].end_transactions(&mut transactions);
        if is_dropped {
            return;
        }
    }
}

/// Settles the jobs of a queue.
struct Settler<'a> {
    state: &'a Arc<State>,
    /// Of all queues.
    db_caller: &'a RefCell<&'a mut DbCaller>,
    ledger: Ledger,
    /// The breaker changes to write.
    reports: Vec<BreakerReport>,
    log: FailureLog,
    /// How long this pass may retry while the database is unavailable.
    until: Instant,
}

impl Settler<'_> {
    fn next_due(&self) -> Option<Instant> {
        let due = self.ledger.next_due().into_iter();
        due.chain(self.log.next_due()).min()
    }

    fn record(&mut self, settlement: Settlement, now: Instant) {
        let lease = settlement.lease;
        // Opened by the first verdict. A message at each claim would wake this thread before the slots.
        if !self.ledger.knows(lease) {
            match self.state.jobs_of(lease) {
                Some(jobs) => self.ledger.open(lease, jobs),
                // The lease was given up.
                None => self.state.count_written(1),
            }
        }
        self.ledger.settled(settlement, now);
    }

    fn write_due(&mut self, now: Instant) {
        log_suppressed(self.state, self.log.take_due(now));
        let due = self.ledger.take_due(now, Flush::Due);
        self.write(due);
        self.write_reports();
    }

    /// Writes everything and releases the rest. Returns the released jobs whose handlers still run.
    fn finish(&mut self, cut_off: &CutOff) -> Result<Vec<JobId>> {
        let mut started = self.write_all();
        started.extend(&cut_off.started);
        self.write_reports();
        let released = self.release_all(&started);
        self.state.forget_all();
        // A transaction may have committed before its job was released.
        let ids = cut_off.running.iter().map(|running| running.meta.id);
        released.map(|released| ids.filter(|id| released.contains(id)).collect())
    }

    /// Writes all verdicts, and gives up those that cannot be written now. Returns the jobs of these that ran.
    fn write_all(&mut self) -> Vec<JobId> {
        let due = self.ledger.take_due(Instant::now(), Flush::All);
        self.write(due);
        let unwritten = self.ledger.take_due(Instant::now(), Flush::All);
        self.give_up(&unwritten);
        let all = self.log.take_due(Instant::now() + PER_LINE);
        log_suppressed(self.state, all);
        let settlements = unwritten.iter().flat_map(|lease| &lease.settlements);
        let ran = settlements.filter(|unwritten| !unwritten.is_unstarted());
        ran.map(|unwritten| unwritten.meta.id).collect()
    }
    fn call<T: Send + 'static>(
        &self,
        doing: &str,
        work: impl FnOnce(&mut Session) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let timeout = call_timeout(self.state);
        self.db_caller.borrow_mut().call(doing, timeout, work)
    }
}
