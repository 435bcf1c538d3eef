//! The two records that processes write, one JSON object per line: the client history (what each
//! client asked for and which answer it got) and the handler log (what handlers did).
//!
//! Each line is a single write, and each process has files of its own, so a record survives a SIGKILL of its writer.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::clock;

/// A line of a client's history.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HistoryLine {
    pub(crate) at: i64,
    /// The name and life of the process, such as `enqueuer-1.3`.
    pub(crate) process: String,
    /// Numbers the operations of a process; 0 for events that belong to none.
    pub(crate) op: u64,
    pub(crate) event: ClientEvent,
}

/// The start or the result of an operation, or an event in the life of a process.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ClientEvent {
    /// The operation starts.
    Invoked {
        operation: Operation,
        /// Identify jobs that have no id yet.
        keys: Vec<i64>,
        ids: Vec<i64>,
    },
    /// It succeeded, for these jobs.
    Ok { ids: Vec<i64> },
    /// It failed and changed nothing.
    Failed { error: String },
    /// No answer: it may have taken effect.
    Unknown { error: String },
    /// The process ended; without a code, a signal killed it.
    Exited { code: Option<i32> },
    /// A fault was injected.
    Fault { what: String },
}

#[expect(clippy::needless_pass_by_value, reason = "for `map_err`")]
impl ClientEvent {
    pub(crate) fn failed(error: impl ToString) -> ClientEvent {
        let error = error.to_string();
        ClientEvent::Failed { error }
    }

    pub(crate) fn unknown(error: impl ToString) -> ClientEvent {
        let error = error.to_string();
        ClientEvent::Unknown { error }
    }
}

/// An operation of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Operation {
    Enqueue,
    Redrive,
    Discard,
    Reopen,
    Edit,
    Cancel,
    Priority,
    /// Changes waiting jobs that a filter matches.
    ChangeJobs,
    Prune,
    Run,
    Pause,
    Resume,
    Deliver,
    OpenBreaker,
    Release,
    Replace,
    EnqueueInWindow,
    Trigger,
    PauseSchedule,
    CloseBreaker,
    Undo,
    Retention,
    Restore,
    DeleteArchived,
    Erase,
}

/// A line of the handler log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct HandlerEvent {
    pub(crate) at: i64,
    pub(crate) process: String,
    pub(crate) job: i64,
    pub(crate) generation: i32,
    pub(crate) attempt: i32,
    /// Numbers the calls of handlers in a process: it may run an attempt again whose lease it has lost.
    pub(crate) call: u64,
    /// Whether the handler writes in the transaction that completes its job.
    pub(crate) is_transactional: bool,
    pub(crate) phase: Phase,
    /// The message of the failure.
    pub(crate) error: Option<String>,
    /// The checkpoint that the attempt began with or wrote.
    pub(crate) checkpoint: Option<u64>,
    /// The batch that the job runs in.
    pub(crate) batch: Option<InBatch>,
}

/// A batch, as its handler got it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct InBatch {
    /// Numbers the batches of a process.
    pub(crate) number: u64,
    pub(crate) jobs: usize,
}

/// The start of an attempt, or how its handler ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Phase {
    Begin,
    /// It is about to write a checkpoint.
    Checkpoint,
    Done,
    Retry,
    Reject,
    Snooze,
    Outage,
}

/// A file to which a process appends lines.
#[derive(Debug)]
pub(crate) struct JsonLines(Mutex<File>);

impl JsonLines {
    pub(crate) fn open(path: &Path) -> JsonLines {
        let file = OpenOptions::new().create(true).append(true).open(path);
        JsonLines(Mutex::new(file.expect("open a record")))
    }

    /// Appends a line, in one write.
    pub(crate) fn write(&self, line: &impl Serialize) {
        let mut bytes = serde_json::to_vec(line).expect("a line is JSON");
        bytes.push(b'\n');
        let mut file = self
            .0
            .lock()
            .expect("no thread panics while it writes a record");
        file.write_all(&bytes).expect("append to a record");
    }
}

/// Returns the path of the handler log of a process.
pub(crate) fn handler_log(folder: &Path, process: &str) -> PathBuf {
    folder.join(format!("handlers-{process}.jsonl"))
}

/// Reads a record of a process. A kill may have cut its last line short; a missing file has no lines.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Vec<T> {
    let bytes = fs::read(path).unwrap_or_default();
    let lines = bytes.split_inclusive(|byte| *byte == b'\n');
    lines
        .filter(|line| line.ends_with(b"\n"))
        .map(|line| serde_json::from_slice(line).expect("a line of a record"))
        .collect()
}

/// The history of one client.
#[derive(Debug)]
pub(crate) struct ClientLog {
    lines: JsonLines,
    process: String,
    op: AtomicU64,
}

impl ClientLog {
    pub(crate) fn open(path: &Path, process: &str) -> ClientLog {
        ClientLog {
            lines: JsonLines::open(path),
            process: process.to_owned(),
            op: AtomicU64::new(0),
        }
    }

    /// Writes that an operation starts. Returns its number.
    pub(crate) fn invoke(&self, operation: Operation, keys: &[i64], ids: &[i64]) -> u64 {
        let op = self.op.fetch_add(1, Ordering::Relaxed) + 1;
        let (keys, ids) = (keys.to_vec(), ids.to_vec());
        self.write(
            op,
            ClientEvent::Invoked {
                operation,
                keys,
                ids,
            },
        );
        op
    }

    /// Carries out an operation: writes that it starts, and its result.
    pub(crate) fn call(
        &self,
        operation: Operation,
        keys: &[i64],
        ids: &[i64],
        call: impl FnOnce() -> redrive::Result<Vec<i64>>,
    ) -> redrive::Result<Vec<i64>> {
        let op = self.invoke(operation, keys, ids);
        let result = call();
        let event = match &result {
            Ok(ids) => ClientEvent::Ok { ids: ids.clone() },
            Err(error) if error.is_invalid() => ClientEvent::failed(error),
            Err(error) => ClientEvent::unknown(error),
        };
        self.write(op, event);
        result
    }

    pub(crate) fn write(&self, op: u64, event: ClientEvent) {
        self.lines.write(&HistoryLine {
            at: clock::now(),
            process: self.process.clone(),
            op,
            event,
        });
    }
}
