//! The records that actors write, one JSON object a line: what a client asked and what it was
//! told, and what handlers did. They outlive a kill of their writer: a line is one write.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::clock;

/// A line of a client's log.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Line {
    pub(crate) at: i64,
    /// Who: its name and which life of it, such as `enqueuer-1.3`.
    pub(crate) actor: String,
    /// Which of its acts.
    pub(crate) op: u64,
    pub(crate) said: Said,
}

/// What a client asked, or was told.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Said {
    /// It asks for this from here on.
    Asked {
        verb: Verb,
        /// What identifies the jobs before they have ids.
        keys: Vec<i64>,
        ids: Vec<i64>,
    },
    /// It was told that it is done, to these.
    Ok { ids: Vec<i64> },
    /// It was told that nothing was done.
    Refused { why: String },
    /// It was told nothing certain.
    Unknown { why: String },
    /// The process began.
    Began { pid: u32 },
    /// The process ended; without a code it was killed.
    Ended { code: Option<i32> },
    /// What was done to it, or to what it stands on.
    Fault { what: String },
}

/// What a client can ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Verb {
    Enqueue,
    Redrive,
    Discard,
    Edit,
    Cancel,
    Priority,
    Prune,
    Run,
}

/// What a handler did outside of the database.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Effect {
    pub(crate) at: i64,
    pub(crate) actor: String,
    pub(crate) job: i64,
    pub(crate) generation: i32,
    pub(crate) attempt: i32,
    /// Whether the handler has a transaction of its own.
    pub(crate) is_own: bool,
    pub(crate) edge: Edge,
}

/// The begin of a run of a handler, or its last act.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Edge {
    Begin,
    Done,
    Retry,
    Reject,
    Snooze,
    Outage,
}

/// A file that lines are appended to, by several processes at once if need be.
#[derive(Debug)]
pub(crate) struct Journal(Mutex<File>);

impl Journal {
    pub(crate) fn open(path: &Path) -> Journal {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Journal(Mutex::new(file.expect("open a record")))
    }

    /// Appends a line, in one write.
    pub(crate) fn write(&self, line: &impl Serialize) {
        let mut bytes = serde_json::to_vec(line).expect("a line is JSON");
        bytes.push(b'\n');
        let mut file = self.0.lock().expect("nobody panics with a record in hand");
        file.write_all(&bytes).expect("append to a record");
    }
}

/// Reads a record. A line that was cut by a kill ends it; there is none where nobody wrote.
pub(crate) fn read<T: DeserializeOwned>(path: &Path) -> Vec<T> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect()
}

/// The log of one client.
#[derive(Debug)]
pub(crate) struct Log {
    journal: Journal,
    actor: String,
    op: AtomicU64,
}

impl Log {
    pub(crate) fn open(path: &Path, actor: &str) -> Log {
        Log {
            journal: Journal::open(path),
            actor: actor.to_owned(),
            op: AtomicU64::new(0),
        }
    }

    /// Writes that something is asked for; answers the number of the act.
    pub(crate) fn asked(&self, verb: Verb, keys: &[i64], ids: &[i64]) -> u64 {
        let op = self.op.fetch_add(1, Ordering::Relaxed) + 1;
        let (keys, ids) = (keys.to_vec(), ids.to_vec());
        self.say(op, Said::Asked { verb, keys, ids });
        op
    }

    /// Writes what came of it.
    pub(crate) fn told(&self, op: u64, answer: &redrive::Result<Vec<i64>>) {
        self.say(
            op,
            match answer {
                Ok(ids) => Said::Ok { ids: ids.clone() },
                Err(error) if error.is_invalid() => Said::Refused {
                    why: error.to_string(),
                },
                Err(error) => Said::Unknown {
                    why: error.to_string(),
                },
            },
        );
    }

    pub(crate) fn say(&self, op: u64, said: Said) {
        let actor = self.actor.clone();
        self.journal.write(&Line {
            at: clock::now(),
            actor,
            op,
            said,
        });
    }
}
