//! What the demo shows: scenes, commands, tables, and progress that is redrawn on a terminal
//! and told in single lines elsewhere.

use std::io::{self, IsTerminal as _};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Where text begins, under a scene's title.
const INDENT: &str = "       ";
/// How often progress is told where nothing can be redrawn.
const LINE_EVERY: Duration = Duration::from_secs(3);

/// The screen. Prints to standard output.
#[derive(Debug)]
pub(crate) struct Screen {
    is_terminal: bool,
    bar: Option<ProgressBar>,
    told: Option<(Instant, Progress)>,
}

/// How far the orders are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Progress {
    /// Orders of the evening.
    pub(crate) events: u64,
    /// Charged by the gateway.
    pub(crate) delivered: u64,
    /// Jobs that are neither done nor dead, by the queue's own word.
    pub(crate) live: u64,
    /// Jobs that back off.
    pub(crate) backing_off: u64,
    /// Open letters.
    pub(crate) letters: u64,
}

impl Screen {
    /// A screen for whoever looks at standard output.
    pub(crate) fn new() -> Screen {
        Screen {
            is_terminal: io::stdout().is_terminal(),
            bar: None,
            told: None,
        }
    }

    /// Begins a scene.
    pub(crate) fn scene(&mut self, time: &str, title: &str) {
        self.still();
        if self.is_terminal {
            println!("\n\x1b[1m{time}  {title}\x1b[0m");
        } else {
            println!("\n{time}  {title}");
        }
    }

    /// Shows a command as a person would type it.
    pub(crate) fn command(&mut self, line: &str) {
        self.say(format!("$ {line}"));
    }

    /// Says something, line by line.
    pub(crate) fn say(&mut self, text: impl AsRef<str>) {
        self.still();
        for line in text.as_ref().lines() {
            println!("{}", format!("{INDENT}{line}").trim_end());
        }
    }

    /// Shows how far the orders are.
    pub(crate) fn progress(&mut self, progress: Progress) {
        if self.is_terminal {
            let bar = self.bar.get_or_insert_with(|| {
                let bar = ProgressBar::with_draw_target(
                    Some(progress.events),
                    ProgressDrawTarget::stdout(),
                );
                let template = format!("{INDENT}{{bar:40.green/dim}} {{msg}}");
                // The template is a constant in all but its indent; the default would do, too.
                bar.set_style(
                    ProgressStyle::with_template(&template)
                        .unwrap_or_else(|_| ProgressStyle::default_bar()),
                );
                bar
            });
            bar.set_message(progress.to_string());
            bar.set_position(progress.delivered);
            return;
        }
        let news = self
            .told
            .is_none_or(|(at, last)| at.elapsed() >= LINE_EVERY && last != progress);
        if news {
            println!("{INDENT}{progress}");
            self.told = Some((Instant::now(), progress));
        }
    }

    /// Ends the progress with one line that stays.
    pub(crate) fn arrived(&mut self, progress: Progress) {
        self.say(progress.to_string());
    }

    /// Takes the progress off the screen.
    fn still(&mut self) {
        self.told = None;
        if let Some(bar) = self.bar.take() {
            bar.finish_and_clear();
        }
    }
}

impl std::fmt::Display for Progress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The rest of the evening, rather than a number of the queue's: that one is a moment
        // behind the gateway's, and the line would not add up.
        let elsewhere = self.delivered + self.backing_off + self.letters;
        let waiting = self.events.saturating_sub(elsewhere);
        write!(
            f,
            "{} of {} delivered · {} waiting · {} backing off · {} dead",
            grouped(self.delivered),
            grouped(self.events),
            grouped(waiting),
            grouped(self.backing_off),
            grouped(self.letters)
        )
    }
}

/// A number with its thousands apart: `20,000`.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_thousands_apart() {
        let shown = [0, 999, 1_000, 20_000, 1_234_567].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "20,000", "1,234,567"]);
    }
}
