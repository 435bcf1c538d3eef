//! A load: one transaction as long as a file, on a thread that is left behind when the server falls
//! silent.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::Duration;

use redrive::postgres::Transaction;
use redrive::{Address, NewJob, Queue};

use crate::error::{Error, Result};

/// What is said when nobody knows whether the jobs are there.
const UNCONFIRMED: &str = "the jobs were sent but not confirmed: look with `redrive stats` before you \
                           repeat this";

/// What the thread is asked for.
enum Ask {
    Add(Vec<NewJob>),
    Commit,
}

/// A transaction that jobs are sent in. Dropping it takes them back.
pub(super) struct Load {
    asks: Sender<Ask>,
    answers: Receiver<Result<u64>>,
    /// How long an answer may take.
    patience: Duration,
}

impl Load {
    /// Begins the transaction.
    pub(super) fn begin(address: Address, queue: &Queue, patience: Duration) -> Result<Load> {
        let (asks, inbox) = channel();
        let (reply, answers) = channel();
        let queue = queue.clone();
        thread::spawn(move || {
            if let Err(error) = load(&address, &queue, &inbox, &reply) {
                // Whoever has given up waiting does not hear it.
                _ = reply.send(Err(error));
            }
        });
        let load = Load {
            asks,
            answers,
            patience,
        };
        load.answer("begin a transaction")?;
        Ok(load)
    }

    /// Sends a chunk; answers how many jobs it was.
    pub(super) fn add(&self, jobs: Vec<NewJob>) -> Result<u64> {
        // When the thread has ended, its last answer says why.
        _ = self.asks.send(Ask::Add(jobs));
        self.answer("enqueue")
    }

    /// Commits what was sent.
    pub(super) fn commit(self) -> Result<()> {
        _ = self.asks.send(Ask::Commit);
        match self.answers.recv_timeout(self.patience) {
            Ok(answer) => answer.map(drop),
            Err(_) => Err(Error::new(UNCONFIRMED)),
        }
    }

    fn answer(&self, doing: &str) -> Result<u64> {
        self.answers
            .recv_timeout(self.patience)
            .unwrap_or_else(|trouble| {
                Err(Error::new(match trouble {
                    RecvTimeoutError::Timeout => format!(
                        "could not {doing}: the database did not answer within {:?}",
                        self.patience
                    ),
                    RecvTimeoutError::Disconnected => {
                        format!("could not {doing}: the transaction had ended")
                    }
                }))
            })
    }
}

/// The whole of it, on its thread.
fn load(
    address: &Address,
    queue: &Queue,
    inbox: &Receiver<Ask>,
    reply: &Sender<Result<u64>>,
) -> Result<()> {
    let mut client = address.connect()?;
    let mut transaction = client
        .transaction()
        .map_err(|error| Error::caused_by("could not begin a transaction", error))?;
    _ = reply.send(Ok(0));
    for ask in inbox {
        match ask {
            Ask::Add(jobs) => _ = reply.send(Ok(add(queue, &mut transaction, &jobs)?)),
            Ask::Commit => {
                transaction
                    .commit()
                    .map_err(|error| Error::caused_by(UNCONFIRMED, error))?;
                _ = reply.send(Ok(0));
                return Ok(());
            }
        }
    }
    // Whoever asked has given up: dropped, it takes everything back.
    Ok(())
}

fn add(queue: &Queue, transaction: &mut Transaction<'_>, jobs: &[NewJob]) -> Result<u64> {
    Ok(queue.add_many_in(transaction, jobs)?.len() as u64)
}
