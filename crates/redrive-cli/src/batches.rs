//! A change of many rows in batches, until a signal arrives.

use std::ops::ControlFlow;

use serde_json::{Value, json};

use crate::context::{Context, Ending};
use crate::error::{Error, Result};
use crate::stop::StopSignal;
use crate::terminal::{Progress, counted, grouped};

/// What a change has done so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SoFar {
    pub(crate) done: u64,
    /// The rows that are done, and those that did not change.
    pub(crate) tried: u64,
    /// The audit record of the change.
    pub(crate) audit: Option<i64>,
}

impl SoFar {
    pub(crate) fn of(done: usize, audit: Option<i64>) -> SoFar {
        let done = done as u64;
        SoFar {
            done,
            tried: done,
            audit,
        }
    }

    pub(crate) fn and_unchanged(self, rows: u64) -> SoFar {
        SoFar {
            tried: self.done + rows,
            ..self
        }
    }
}

impl From<u64> for SoFar {
    fn from(done: u64) -> SoFar {
        SoFar {
            done,
            tried: done,
            audit: None,
        }
    }
}

/// Called after each batch.
pub(crate) type GoOn<'a> = &'a mut dyn FnMut(SoFar) -> ControlFlow<()>;

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
    /// The label of the progress bar: `deleting`.
    pub(crate) progressive: &'static str,
    /// The participle: `deleted`.
    pub(crate) participle: &'static str,
    pub(crate) undo: Undo,
}

/// A change that ended.
pub(crate) struct Ended<T> {
    pub(crate) so_far: SoFar,
    pub(crate) result: T,
    /// The message if a signal stopped it.
    stopped: Option<String>,
}

impl Batches {
    /// Changes rows, `total` at the most. If an error ends it, says how much was done. Listens for signals before
    /// `change` begins, so what else reacts to a signal has to start there: a signal between the two would be lost.
    pub(crate) fn run<T, E>(
        &self,
        total: u64,
        cx: &mut Context<'_>,
        change: impl FnOnce(GoOn<'_>) -> Result<T, E>,
    ) -> Result<Ended<T>>
    where
        Error: From<E>,
    {
        let mut stop = StopSignal::listen()?;
        let progress = Progress::of(self.progressive, total);
        let (mut so_far, mut course) = (SoFar::default(), ControlFlow::Continue(()));
        let changed = change(&mut |now| {
            so_far = now;
            progress.at(now.tried);
            course = stop.check();
            course
        });
        drop(progress);
        let message = self.stopped(so_far, total);
        if changed.is_err() && so_far.done > 0 {
            cx.say(&message);
        }
        let is_stopped = course.is_break() && so_far.tried < total;
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
    pub(crate) fn stopped(&self, SoFar { done, audit, .. }: SoFar, total: u64) -> String {
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
    /// Says so if a signal stopped the change. Otherwise it ends as given.
    pub(crate) fn or_stopped(&self, ending: Ending, cx: &mut Context<'_>) -> Result<Ending> {
        match &self.stopped {
            Some(message) => cx.nothing(message),
            None => Ok(ending),
        }
    }
}
