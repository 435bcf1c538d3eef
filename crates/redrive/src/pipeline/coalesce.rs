//! Coalescing: enqueues of a queue that wait at the same moment share one statement.
//!
//! A single enqueue pays for a round trip, a transaction and a commit. A statement pays for them once,
//! however many jobs it stores. Up to [`STATEMENTS`] statements run at the same time. While fewer run,
//! a call starts its statement at once; further calls wait in line. When a statement ends, the calls at
//! the head of the line share the next one. The last of them sends it, so that the statement has as
//! much time as any of them. No thread runs in the background.
//!
//! A shared statement stores all of its jobs or none. If the server rejects it, each call repeats its
//! own job alone, so no call fails because of another one's job. If the outcome is unknown, no call
//! repeats anything and all of them report it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::job::new_job::NewJob;
use crate::job::wait::from_now;
use crate::pipeline::insert::{Enqueued, fitting};
use crate::sync::channel::{Receiver, RecvTimeoutError, Sender, bounded};
use crate::sync::{Instant, Mutex, lock};

/// How many statements run at the same time: while one commits, the server works on the other.
const STATEMENTS: usize = 2;
/// The most jobs of a shared statement.
const MAX_JOBS: usize = 100;
/// The most bytes of payloads in a shared statement, unless one job has more.
const MAX_BYTES: usize = 256 * 1024;

/// Stores jobs in one statement, within a deadline, and returns the result of each in the same order.
pub(crate) type Store<'a> = dyn Fn(Arc<[NewJob]>, Duration) -> Result<Vec<Enqueued>> + 'a;

/// The calls of a queue that enqueue one plain job each.
#[derive(Default)]
pub(crate) struct Coalescer(Mutex<Line>);

/// No code that can panic runs while it is locked.
#[derive(Default)]
struct Line {
    running: usize,
    waiting: VecDeque<Waiting>,
    calls: u64,
}

/// A call in line.
struct Waiting {
    number: u64,
    job: NewJob,
    answer: Sender<Answer>,
}

/// How a wait in line ends.
enum Answer {
    /// The call stores these jobs. The last one is its own.
    Lead(Vec<Waiting>),
    /// The statement ended.
    Ended(Result<Enqueued>),
}

impl Coalescer {
    /// Stores a job, within the deadline.
    ///
    /// # Errors
    /// Those of `store`. *Unavailable* at the deadline; if the job was still in line, it is not stored.
    pub(crate) fn enqueue(
        &self,
        queue: &str,
        job: NewJob,
        deadline: Duration,
        store: &Store<'_>,
    ) -> Result<Enqueued> {
        let mut line = lock(&self.0);
        // In the order of the line, so that the last call of a statement has the most time.
        let until = from_now(deadline);
        let alone = |job, within| store(Arc::from([job]), within).map(|stored| stored[0]);
        if line.running < STATEMENTS {
            line.running += 1;
            drop(line);
            let _turn = Turn(self);
            return alone(job, deadline);
        }
        line.calls += 1;
        let number = line.calls;
        let (sender, answer) = bounded(1);
        line.waiting.push_back(Waiting {
            number,
            job: job.clone(),
            answer: sender,
        });
        drop(line);
        let ended = loop {
            match self.wait(queue, number, &answer, until, deadline)? {
                Answer::Lead(calls) => self.lead(calls, until, store),
                Answer::Ended(ended) => break ended,
            }
        };
        match ended {
            // The server rejected the statement, perhaps because of another job, and stored nothing.
            Err(error) if !error.is_unavailable() => alone(job, left(until)),
            ended => ended,
        }
    }

    fn wait(
        &self,
        queue: &str,
        number: u64,
        answer: &Receiver<Answer>,
        until: Instant,
        deadline: Duration,
    ) -> Result<Answer> {
        let told = |why: &str| format!("could not enqueue into queue `{queue}`: {why}");
        match answer.recv_timeout(left(until)) {
            Ok(answer) => return Ok(answer),
            Err(RecvTimeoutError::Disconnected) => {
                return Err(Error::lost(told("the call that stored the job panicked")));
            }
            Err(RecvTimeoutError::Timeout) => {}
        }
        let mut line = lock(&self.0);
        let mut waiting = line.waiting.iter();
        if let Some(place) = waiting.position(|waiting| waiting.number == number) {
            line.waiting.remove(place);
            return Err(Error::unavailable(told(&format!(
                "the calls before this one had no answer within {deadline:?}; the job is not stored"
            ))));
        }
        // Answers are sent while the line is locked, or by a statement that has the job.
        let late = || told(&format!("the database did not answer within {deadline:?}"));
        answer.try_recv().map_err(|_| Error::lost(late()))
    }

    /// Stores the jobs of several calls and answers all of them.
    fn lead(&self, calls: Vec<Waiting>, until: Instant, store: &Store<'_>) {
        let _turn = Turn(self);
        let calls = calls.into_iter().map(|call| (call.job, call.answer));
        let (jobs, answers): (Vec<NewJob>, Vec<Sender<Answer>>) = calls.unzip();
        let stored = store(jobs.into(), left(until));
        for (place, answer) in answers.into_iter().enumerate() {
            let its = stored.as_ref().map(|all| all[place]);
            // The call may have reached its deadline.
            _ = answer.send(Answer::Ended(its.map_err(Error::clone)));
        }
    }
}

/// The turn of a running statement. Dropping it starts the next one.
struct Turn<'a>(&'a Coalescer);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut line = lock(&self.0.0);
        line.running -= 1;
        let jobs = line.waiting.iter().map(|waiting| &waiting.job);
        let share = fitting(jobs, MAX_JOBS, MAX_BYTES);
        let calls: Vec<Waiting> = line.waiting.drain(..share).collect();
        if let Some(answer) = calls.last().map(|call| call.answer.clone()) {
            line.running += 1;
            // The call takes itself out of the line before it gives up, so it still listens.
            _ = answer.send(Answer::Lead(calls));
        }
    }
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

impl fmt::Debug for Coalescer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coalescer").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
