//! Progress bars on stderr, drawn only if stderr is a terminal.

use std::fmt;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

use super::escape::clean;

/// The progress of one operation. Dropping it removes the bar.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar over a number of letters or jobs.
    pub(crate) fn of(what: &str, total: u64) -> Progress {
        Progress::new(
            what,
            Some(total),
            "{prefix} {bar:20} {pos}/{len} {per_sec} {eta} {msg}",
        )
    }

    /// A bar over the bytes of a file.
    pub(crate) fn of_bytes(what: &str, total: u64) -> Progress {
        Progress::new(
            what,
            Some(total),
            "{prefix} {bar:30} {percent}% {msg} {eta}",
        )
    }

    /// A spinner for an unknown amount of work.
    pub(crate) fn unknown(what: &str) -> Progress {
        Progress::new(what, None, "{spinner} {prefix} {msg} {elapsed}")
    }

    fn new(what: &str, total: Option<u64>, template: &str) -> Progress {
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.with_key("per_sec", per_second));
        }
        bar.set_prefix(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress(bar)
    }

    /// Sets how much is done.
    pub(crate) fn at(&self, position: u64) {
        self.0.set_position(position);
    }

    /// Sets the text beside the bar, escaped: names of queues and kinds may be in it.
    pub(crate) fn show(&self, text: impl AsRef<str>) {
        self.0.set_message(clean(text.as_ref()));
    }

    /// Whether the bar is drawn. It is not if stderr is no terminal.
    pub(crate) fn is_drawn(&self) -> bool {
        !self.0.is_hidden()
    }

    /// Removes the bar while something else is written to the terminal.
    pub(crate) fn suspend<T>(&self, write: impl FnOnce() -> T) -> T {
        self.0.suspend(write)
    }
}

/// Writes the rate as a whole number.
fn per_second(state: &ProgressState, text: &mut dyn fmt::Write) {
    // A bar that cannot be drawn must not fail the operation.
    _ = write!(text, "{:.0}/s", state.per_sec());
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_beside_a_bar_is_escaped() {
        let progress = Progress::unknown("redriving");
        progress.show("; queue `a\u{202e}b` is paused");
        assert_eq!(progress.0.message(), r"; queue `a\u{202e}b` is paused");
    }
}
