//! A change of many rows in batches, until a signal arrives.

use std::ops::{ControlFlow, Deref};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redrive::{BatchProgress, Database};
use serde_json::{Value, json};

use crate::context::{Context, Ending};
use crate::error::{Error, Result};
use crate::stop::StopSignal;
use crate::terminal::{Progress, counted, grouped};

/// The database of a change in batches. It shows the progress of the change, and stops it after a signal.
pub(crate) struct Watched {
    db: Database,
    seen: Arc<Seen>,
}

/// What a change has done so far.
struct Seen {
    stop: StopSignal,
    progress: Progress,
    so_far: Mutex<BatchProgress>,
}

impl Watched {
    /// Tells how much is done, between the batches of the database. Breaks after a signal.
    pub(crate) fn go_on(&self, so_far: BatchProgress) -> ControlFlow<()> {
        self.seen.go_on(so_far)
    }

    /// Whether a signal stopped the change.
    pub(crate) fn is_stopped(&self) -> bool {
        self.seen.stop.check().is_break()
    }
}

impl Deref for Watched {
    type Target = Database;

    fn deref(&self) -> &Database {
        &self.db
    }
}

impl Seen {
    fn go_on(&self, so_far: BatchProgress) -> ControlFlow<()> {
        self.progress.at(so_far.tried);
        *self.so_far() = so_far;
        self.stop.check()
    }

    fn so_far(&self) -> MutexGuard<'_, BatchProgress> {
        self.so_far.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How to undo a change.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Undo {
    None,
    /// A hint about rows that changed for good, or about the others.
    Hint(&'static str),
    /// A hint that names the audit record of the change.
    OfAudit(fn(i64) -> String),
}

/// A change of many rows, in words.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Batches {
    /// A row: `letter`.
    pub(crate) noun: &'static str,
    /// The action in JSON: `delete`.
    pub(crate) action: &'static str,
    /// The participle, which is the label of the progress bar too: `deleted`.
    pub(crate) participle: &'static str,
    pub(crate) undo: Undo,
}

/// A change that ended.
pub(crate) struct Ended<T> {
    pub(crate) so_far: BatchProgress,
    pub(crate) result: T,
    /// The message if a signal stopped it.
    stopped: Option<String>,
}

impl Batches {
    pub(crate) const fn of_letters(
        action: &'static str,
        participle: &'static str,
        undo: Undo,
    ) -> Batches {
        Batches {
            noun: "letter",
            action,
            participle,
            undo,
        }
    }

    /// Changes rows, `total` at the most. If an error ends it, says how much was done.
    pub(crate) fn run<T, E>(
        &self,
        total: u64,
        cx: &mut Context<'_>,
        change: impl FnOnce(&Watched) -> Result<T, E>,
    ) -> Result<Ended<T>>
    where
        Error: From<E>,
    {
        let db = cx.database()?;
        let seen = Arc::new(Seen {
            stop: StopSignal::listen()?,
            progress: Progress::of(self.participle, total),
            so_far: Mutex::default(),
        });
        let after = Arc::clone(&seen);
        let db = db.each_batch(move |so_far| after.go_on(so_far));
        let watched = Watched { db, seen };
        let changed = change(&watched);
        let so_far = *watched.seen.so_far();
        let is_stopped = watched.is_stopped() && so_far.tried < total;
        // What follows is written without the bar.
        drop(watched);
        let message = self.stopped(so_far, total);
        if changed.is_err() && so_far.done > 0 {
            cx.say(&message);
        }
        Ok(Ended {
            so_far,
            result: changed?,
            stopped: is_stopped.then_some(message),
        })
    }

    pub(crate) fn text(&self, done: u64) -> String {
        format!("{} {}", counted(done, self.noun), self.participle)
    }

    pub(crate) fn json(&self, done: u64) -> Value {
        let name = format!("{}s", self.noun.replace(' ', "_"));
        json!({ "action": self.action, "dry_run": false, name: done })
    }

    /// What was done and left as one line of JSON.
    pub(crate) fn line(&self, done: u64, skipped: Vec<Value>, audit: Option<i64>) -> Value {
        let mut line = self.json(done);
        line["skipped"] = skipped.into();
        // What cannot be undone needs no selection by its record.
        if !matches!(self.undo, Undo::Hint(_)) {
            line["audit"] = audit.into();
        }
        line
    }

    /// How much was done by a command that ends early, and how to undo it.
    pub(crate) fn stopped(
        &self,
        BatchProgress { done, audit, .. }: BatchProgress,
        total: u64,
    ) -> String {
        let undo = match self.undo {
            Undo::None => None,
            Undo::Hint(hint) => (done > 0).then(|| hint.to_owned()),
            Undo::OfAudit(hint) => audit.map(hint),
        };
        format!(
            "stopped: {} of {} {}{}",
            grouped(done),
            counted(total, self.noun),
            self.participle,
            undo.map(|undo| format!("; {undo}")).unwrap_or_default()
        )
    }
}

impl<T> Ended<T> {
    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.is_some()
    }

    /// Says so if a signal stopped the change. Otherwise it ends as given.
    pub(crate) fn or_stopped(&self, ending: Ending, cx: &mut Context<'_>) -> Result<Ending> {
        match &self.stopped {
            Some(message) => cx.nothing(message),
            None => Ok(ending),
        }
    }
}
