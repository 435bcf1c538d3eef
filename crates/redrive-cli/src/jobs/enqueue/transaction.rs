//! Runs the transaction that enqueues a file on a dedicated thread.
//!
//! The thread is abandoned if the server stops answering, because a blocking call has no deadline.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use redrive::{ConnectOptions, NewJob, Queue};

use crate::error::{Error, Result};

const UNCONFIRMED: &str = "the commit was not confirmed, so the jobs may be enqueued; check the queue before you repeat this";

/// Jobs to enqueue; `None`: commit.
type Request = Option<Vec<NewJob>>;

/// A transaction that enqueues jobs. Dropping it rolls the transaction back.
pub(super) struct FileTransaction {
    requests: Sender<Request>,
    answers: Receiver<Result<u64>>,
    /// The time limit of an answer.
    timeout: Duration,
}

impl FileTransaction {
    pub(super) fn begin(address: ConnectOptions, queue: &Queue, timeout: Duration) -> Result<Self> {
        let (requests, inbox) = channel();
        let (reply, answers) = channel();
        let queue = queue.clone();
        let work = move || {
            if let Err(error) = serve(&address, &queue, &inbox, &reply) {
                // The receiver is gone if the caller gave up.
                _ = reply.send(Err(error));
            }
        };
        thread::Builder::new()
            .spawn(work)
            .map_err(|error| Error::caused_by("could not start a thread", error))?;
        let transaction = FileTransaction {
            requests,
            answers,
            timeout,
        };
        transaction.answer("begin a transaction")?;
        Ok(transaction)
    }

    /// Enqueues jobs and returns their number.
    pub(super) fn enqueue(&self, jobs: Vec<NewJob>) -> Result<u64> {
        // If the thread has ended, its last answer is the error.
        _ = self.requests.send(Some(jobs));
        self.answer("enqueue")
    }

    pub(super) fn commit(self) -> Result<()> {
        _ = self.requests.send(None);
        match self.answers.recv_timeout(self.timeout) {
            Ok(answer) => answer.map(drop),
            Err(_) => Err(Error::new(UNCONFIRMED)),
        }
    }

    fn answer(&self, operation: &str) -> Result<u64> {
        self.answers
            .recv_timeout(self.timeout)
            .unwrap_or_else(|error| {
                Err(Error::new(match error {
                    RecvTimeoutError::Timeout => format!(
                        "could not {operation}: the database did not answer within {:?}",
                        self.timeout
                    ),
                    RecvTimeoutError::Disconnected => {
                        format!("could not {operation}: the transaction has ended")
                    }
                }))
            })
    }
}

/// Runs the transaction on its thread. Returning without a commit rolls it back.
fn serve(
    address: &ConnectOptions,
    queue: &Queue,
    inbox: &Receiver<Request>,
    reply: &Sender<Result<u64>>,
) -> Result<()> {
    let mut client = address.connect()?;
    let mut transaction = client
        .transaction()
        .map_err(|error| Error::caused_by("could not begin a transaction", error))?;
    _ = reply.send(Ok(0));
    for request in inbox {
        let Some(jobs) = request else {
            transaction
                .commit()
                .map_err(|error| Error::caused_by(UNCONFIRMED, error))?;
            _ = reply.send(Ok(0));
            break;
        };
        let stored = queue.enqueue_jobs_in(&mut transaction, &jobs)?;
        _ = reply.send(Ok(stored.len() as u64));
    }
    Ok(())
}
