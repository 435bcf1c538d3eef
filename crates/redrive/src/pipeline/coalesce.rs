//! Coalescing: enqueues of a queue that wait at the same moment share one statement.
//!
//! A single enqueue pays for a round trip, a transaction and a commit. A statement pays for them once,
//! however many jobs it stores. Up to [`STATEMENTS`] statements run at the same time. While fewer run,
//! a call starts its statement at once; further calls wait in line. When a statement ends, the call at
//! the head of the line stores its job together with the jobs of the calls behind it. No thread runs in
//! the background.
//!
//! A shared statement stores all of its jobs or none. If the server rejects it, each call repeats its
//! own job alone, so no call fails because of another one's job. If the outcome is unknown, no call
//! repeats anything and all of them report it.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use crate::error::{Error, Result};
use crate::job::job::JobId;
use crate::job::new_job::NewJob;
use crate::sync::channel::{Receiver, RecvTimeoutError, Sender, bounded};
use crate::sync::{Instant, Mutex, MutexGuard};

/// How many statements run at the same time: while one commits, the server works on the other.
const STATEMENTS: usize = 2;
/// The most jobs of a shared statement.
const MAX_JOBS: usize = 100;
/// The most bytes of payloads in a shared statement, unless one job has more.
const MAX_BYTES: usize = 256 * 1024;

/// Stores jobs in one statement, within a deadline, and returns their ids in the same order.
pub(crate) type Store<'a> = dyn Fn(Arc<[NewJob]>, Duration) -> Result<Vec<JobId>> + 'a;

/// The calls of a queue that enqueue one plain job each.
#[derive(Default)]
pub(crate) struct Coalescer {
    line: Mutex<Line>,
}

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
    /// The call is at the head of the line and stores these jobs. The first is its own.
    Lead(Vec<Waiting>),
    /// Another call's statement stored the job.
    Stored(JobId),
    /// The outcome of another call's statement is unknown.
    Unknown(Error),
    /// The server rejected another call's statement, which stored nothing.
    Alone(NewJob),
}

impl Coalescer {
    /// Stores a job and returns its id, within the deadline.
    ///
    /// # Errors
    /// Those of `store`. *Unavailable* at the deadline; if the job was still in line, it is not stored.
    pub(crate) fn enqueue(
        &self,
        job: NewJob,
        deadline: Duration,
        store: &Store<'_>,
    ) -> Result<JobId> {
        let until = Instant::now() + deadline;
        let (number, answer) = {
            let mut line = self.line();
            if line.running < STATEMENTS {
                line.running += 1;
                drop(line);
                let _turn = Turn(self);
                return alone(job, deadline, store);
            }
            line.calls += 1;
            let number = line.calls;
            let (sender, answer) = bounded(1);
            line.waiting.push_back(Waiting {
                number,
                job,
                answer: sender,
            });
            (number, answer)
        };
        match self.wait(number, &answer, until, deadline)? {
            Answer::Lead(batch) => {
                let _turn = Turn(self);
                lead(batch, until, store)
            }
            Answer::Stored(id) => Ok(id),
            Answer::Unknown(error) => Err(error),
            Answer::Alone(job) => alone(job, left(until), store),
        }
    }

    fn wait(
        &self,
        number: u64,
        answer: &Receiver<Answer>,
        until: Instant,
        deadline: Duration,
    ) -> Result<Answer> {
        let late = || {
            Error::unavailable(format!(
                "could not enqueue: the calls before this one had no answer within {deadline:?}"
            ))
        };
        match answer.recv_timeout(left(until)) {
            Ok(answer) => Ok(answer),
            Err(RecvTimeoutError::Disconnected) => Err(Error::lost(
                "could not enqueue: the call that stored the job panicked",
            )),
            Err(RecvTimeoutError::Timeout) => {
                let mut line = self.line();
                let before = line.waiting.len();
                line.waiting.retain(|waiting| waiting.number != number);
                let was_in_line = line.waiting.len() < before;
                // Answers are sent while the line is locked, or by a statement that has the job.
                match answer.try_recv() {
                    Ok(Answer::Lead(mut batch)) => {
                        // Too late to lead. The others have more time.
                        batch.remove(0);
                        batch
                            .into_iter()
                            .rev()
                            .for_each(|waiting| line.waiting.push_front(waiting));
                        drop(line);
                        drop(Turn(self));
                        Err(late())
                    }
                    Ok(answer) => Ok(answer),
                    Err(_) if was_in_line => Err(late()),
                    Err(_) => Err(Error::lost(format!(
                        "could not enqueue: the database did not answer within {deadline:?}"
                    ))),
                }
            }
        }
    }

    fn line(&self) -> MutexGuard<'_, Line> {
        // No code that can panic runs while the line is locked.
        self.line.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The turn of a running statement. Dropping it starts the next one.
struct Turn<'a>(&'a Coalescer);

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let mut line = self.0.line();
        line.running -= 1;
        let size = batch_size(
            line.waiting
                .iter()
                .map(|waiting| waiting.job.payload.as_str().len()),
        );
        let batch: Vec<Waiting> = line.waiting.drain(..size).collect();
        if let Some(first) = batch.first() {
            let first = first.answer.clone();
            line.running += 1;
            // The call takes itself out of the line before it gives up, so it still listens.
            _ = first.send(Answer::Lead(batch));
        }
    }
}

/// Returns how many of the waiting jobs, given the sizes of their payloads, share the next statement.
fn batch_size(sizes: impl Iterator<Item = usize>) -> usize {
    let mut bytes = 0;
    sizes
        .take(MAX_JOBS)
        .enumerate()
        .take_while(|(index, size)| {
            bytes += size;
            *index == 0 || bytes <= MAX_BYTES
        })
        .count()
}

fn alone(job: NewJob, deadline: Duration, store: &Store<'_>) -> Result<JobId> {
    let ids = store(Arc::from([job]), deadline)?;
    ids.into_iter().next().ok_or_else(no_id)
}

/// Stores the jobs of several calls and answers all but the first, which is the caller.
fn lead(batch: Vec<Waiting>, until: Instant, store: &Store<'_>) -> Result<JobId> {
    let (jobs, answers): (Vec<NewJob>, Vec<Sender<Answer>>) = batch
        .into_iter()
        .map(|waiting| (waiting.job, waiting.answer))
        .unzip();
    let jobs: Arc<[NewJob]> = jobs.into();
    let stored = store(Arc::clone(&jobs), left(until));
    let mut outcomes = jobs.iter().enumerate().map(|(index, job)| match &stored {
        Ok(ids) => ids
            .get(index)
            .map_or_else(|| Answer::Unknown(no_id()), |id| Answer::Stored(*id)),
        Err(error) if error.is_unavailable() => Answer::Unknown(error.shared()),
        Err(_) => Answer::Alone(job.clone()),
    });
    let own = outcomes.next();
    for (answer, outcome) in answers.iter().skip(1).zip(outcomes) {
        // The call may have reached its deadline.
        _ = answer.send(outcome);
    }
    match own {
        Some(Answer::Stored(id)) => Ok(id),
        Some(Answer::Alone(job)) if jobs.len() > 1 => alone(job, left(until), store),
        _ => Err(stored.err().unwrap_or_else(no_id)),
    }
}

fn left(until: Instant) -> Duration {
    until.saturating_duration_since(Instant::now())
}

fn no_id() -> Error {
    Error::lost("could not enqueue: the database returned no id")
}

impl fmt::Debug for Coalescer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coalescer").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
