//! The message of a bulk command that ends early: how much was done, and how to undo it.

use crate::context::{Context, Ending};
use crate::error::Result;
use crate::terminal::{counted, grouped};

/// The progress of a bulk command.
pub(crate) struct Stopped {
    pub(crate) done: u64,
    /// The letters or jobs that the command would have changed.
    pub(crate) total: u64,
    /// The change as a participle: `discarded`.
    pub(crate) participle: &'static str,
    /// The way to undo the change; `None`: nothing was changed.
    pub(crate) undo: Option<String>,
}

impl Stopped {
    /// Reports a command that a signal stopped.
    pub(crate) fn say(&self, noun: &str, cx: &mut Context<'_>) -> Result<Ending> {
        cx.nothing(self.text_of(noun))
    }

    /// Reports what was done before an error, if anything.
    pub(crate) fn say_after_error(&self, noun: &str, cx: &mut Context<'_>) {
        if self.done > 0 {
            cx.say(self.text_of(noun));
        }
    }

    /// The message about these things.
    pub(crate) fn text_of(&self, noun: &str) -> String {
        let undo = self.undo.as_ref();
        let undo = undo.map(|undo| format!("; {undo}")).unwrap_or_default();
        format!(
            "stopped: {} of {} {}{undo}",
            grouped(self.done),
            counted(self.total, noun),
            self.participle
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_names_its_progress_and_the_undo() {
        let stopped = |done, undo: Option<&str>| Stopped {
            done,
            total: 200_001,
            participle: "discarded",
            undo: undo.map(str::to_owned),
        };
        let some = stopped(10_500, Some("undo: redrive dlq reopen audit=412 --yes"));
        assert_eq!(
            some.text_of("letter"),
            "stopped: 10,500 of 200,001 letters discarded; undo: redrive dlq reopen audit=412 --yes"
        );
        let none = stopped(0, None);
        assert_eq!(
            none.text_of("letter"),
            "stopped: 0 of 200,001 letters discarded"
        );
    }
}
