//! A change of many rows in batches, until a signal arrives.

use std::ops::ControlFlow;

use serde_json::json;

use crate::context::{Context, Ending};
use crate::error::Result;
use crate::stop::StopSignal;
use crate::stopped::Stopped;
use crate::terminal::{Progress, counted};

/// Called after each batch with the number of rows so far.
pub(crate) type GoOn<'a> = &'a mut dyn FnMut(u64) -> ControlFlow<()>;

/// Changes rows in batches. Returns how many it changed, whether a signal stopped it, and the result.
pub(crate) fn in_batches<T>(
    progressive: &'static str,
    total: u64,
    change: impl FnOnce(GoOn<'_>) -> redrive::Result<T>,
) -> Result<(u64, ControlFlow<()>, redrive::Result<T>)> {
    let mut stop = StopSignal::listen()?;
    let progress = Progress::of(progressive, total);
    let (mut done, mut course) = (0, ControlFlow::Continue(()));
    let changed = change(&mut |so_far| {
        done = so_far;
        progress.at(done);
        course = stop.check();
        course
    });
    drop(progress);
    Ok((done, course, changed))
}

/// A command that changes rows and reports their number.
pub(crate) struct Batches {
    /// The command.
    pub(crate) action: &'static str,
    /// The label of the progress bar: `deleting`.
    pub(crate) progressive: &'static str,
    /// The participle: `deleted`.
    pub(crate) participle: &'static str,
    pub(crate) noun: &'static str,
    pub(crate) total: u64,
    /// How to undo the change, or that nothing does.
    pub(crate) undo: &'static str,
}

impl Batches {
    pub(crate) fn run<T>(
        &self,
        cx: &mut Context<'_>,
        change: impl FnOnce(GoOn<'_>) -> redrive::Result<T>,
    ) -> Result<Ending> {
        let (done, course, changed) = in_batches(self.progressive, self.total, change)?;
        let stopped = Stopped {
            done,
            total: self.total,
            participle: self.participle,
            undo: (done > 0).then(|| self.undo.to_owned()),
        };
        changed.inspect_err(|_| stopped.say_after_error(self.noun, cx))?;
        let line = json!({ "action": self.action, self.name(): done });
        cx.print(
            &line,
            format!("{} {}", counted(done, self.noun), self.participle),
        )?;
        match course.is_break() && done < self.total {
            true => stopped.say(self.noun, cx),
            false => Ok(Ending::Done),
        }
    }

    /// The name of the rows in JSON.
    pub(crate) fn name(&self) -> String {
        format!("{}s", self.noun.replace(' ', "_"))
    }
}
