//! Progress of long work: a bar on stderr when a terminal looks, nothing otherwise.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The progress of one piece of work; dropping it removes the bar.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// A bar over so many letters or jobs.
    pub(crate) fn of(what: &str, total: u64) -> Progress {
        Progress::with(
            ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr()),
            what,
            "{prefix} {bar:20} {pos}/{len} {per_sec} {eta} {msg}",
        )
    }

    /// A bar over the bytes of a file; what is counted is shown beside it.
    pub(crate) fn of_bytes(what: &str, total: u64) -> Progress {
        Progress::with(
            ProgressBar::with_draw_target(Some(total), ProgressDrawTarget::stderr()),
            what,
            "{prefix} {bar:30} {percent}% {msg} {eta}",
        )
    }

    /// For work whose size is not known.
    pub(crate) fn unknown(what: &str) -> Progress {
        Progress::with(
            ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()),
            what,
            "{spinner} {prefix} {msg} {elapsed}",
        )
    }

    fn with(bar: ProgressBar, what: &str, template: &str) -> Progress {
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style);
        }
        bar.set_prefix(what.to_owned());
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress(bar)
    }

    /// Where the work is by now.
    pub(crate) fn at(&self, position: u64) {
        self.0.set_position(position);
    }

    /// What to show beside the bar.
    pub(crate) fn show(&self, text: impl Into<String>) {
        self.0.set_message(text.into());
    }

    /// Takes the bar away while something else is written to the terminal.
    pub(crate) fn aside<T>(&self, write: impl FnOnce() -> T) -> T {
        self.0.suspend(write)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
