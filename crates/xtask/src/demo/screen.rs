//! The output of the demo. On a terminal, a bar shows progress.

use std::io::{self, IsTerminal as _};

use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The indentation below a heading.
const INDENT: &str = "       ";

/// Prints to standard output.
#[derive(Debug)]
pub(crate) struct Screen {
    is_terminal: bool,
    bar: Option<ProgressBar>,
}

/// The state of all orders.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    /// All orders.
    pub(crate) events: u64,
    /// Charged by the gateway.
    pub(crate) delivered: u64,
    /// Jobs in the queue.
    pub(crate) live: u64,
    /// Jobs that back off.
    pub(crate) backing_off: u64,
    /// Open letters.
    pub(crate) letters: u64,
}

impl Screen {
    pub(crate) fn new() -> Screen {
        Screen {
            is_terminal: io::stdout().is_terminal(),
            bar: None,
        }
    }

    /// Prints a heading.
    pub(crate) fn heading(&mut self, time: &str, title: &str) {
        self.clear();
        if self.is_terminal {
            println!("\n\x1b[1m{time}  {title}\x1b[0m");
        } else {
            println!("\n{time}  {title}");
        }
    }

    /// Prints a command line.
    pub(crate) fn command(&mut self, line: &str) {
        self.print(format!("$ {line}"));
    }

    /// Prints text, indented.
    pub(crate) fn print(&mut self, text: impl AsRef<str>) {
        self.clear();
        for line in text.as_ref().lines() {
            println!("{}", format!("{INDENT}{line}").trim_end());
        }
    }

    /// Shows progress.
    pub(crate) fn progress(&mut self, progress: Progress) {
        let bar = self.bar.get_or_insert_with(|| {
            let target = ProgressDrawTarget::stdout();
            let bar = ProgressBar::with_draw_target(Some(progress.events), target);
            let template = format!("{INDENT}{{bar:40.green/dim}} {{msg}}");
            let style = ProgressStyle::with_template(&template);
            bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
            bar
        });
        bar.set_message(progress.to_string());
        bar.set_position(progress.delivered);
    }

    /// Removes the progress bar.
    fn clear(&mut self) {
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl std::fmt::Display for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Computed, because the number of the queue lags behind the gateway's.
        let elsewhere = self.delivered + self.backing_off + self.letters;
        let waiting = self.events.saturating_sub(elsewhere);
        write!(
            f,
            "{} of {} delivered · {} waiting · {} backing off · {} dead",
            HumanCount(self.delivered),
            HumanCount(self.events),
            HumanCount(waiting),
            HumanCount(self.backing_off),
            HumanCount(self.letters)
        )
    }
}
