//! What the demo shows: scenes, commands, tables, and progress that is redrawn on a terminal
//! and told in single lines elsewhere.

use std::fmt::Write as _;
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

    /// Shows a table, its first column to the left and its numbers to the right.
    pub(crate) fn table<const N: usize>(&mut self, heads: [&str; N], rows: &[[String; N]]) {
        self.say(table(heads, rows));
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

/// A table as text. Cells that begin with a digit are aligned to the right.
fn table<const N: usize>(heads: [&str; N], rows: &[[String; N]]) -> String {
    let is_number = |cell: &str| cell.starts_with(|c: char| c.is_ascii_digit());
    let mut lines = String::new();
    let all = std::iter::once(heads.map(str::to_owned)).chain(rows.iter().cloned());
    for line in all {
        for (column, cell) in line.iter().enumerate() {
            let cells = rows.iter().map(|row| row[column].as_str());
            let width = cells
                .chain([heads[column]])
                .map(|cell| cell.chars().count())
                .max();
            let space = " ".repeat(width.unwrap_or_default() - cell.chars().count());
            let to_the_right = rows.iter().all(|row| is_number(&row[column]));
            let (before, after) = if to_the_right {
                (space.as_str(), "")
            } else {
                ("", space.as_str())
            };
            let gap = if column == 0 { "" } else { "  " };
            // Writing to a String cannot fail.
            _ = write!(lines, "{gap}{before}{cell}{after}");
        }
        lines.truncate(lines.trim_end().len());
        lines.push('\n');
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_thousands_apart() {
        let shown = [0, 999, 1_000, 20_000, 1_234_567].map(grouped);
        assert_eq!(shown, ["0", "999", "1,000", "20,000", "1,234,567"]);
    }

    #[test]
    fn a_table_lines_up() {
        let rows = [
            ["rejected".to_owned(), "62".to_owned(), "no `€`".to_owned()],
            ["exhausted".to_owned(), "1,204".to_owned(), "503".to_owned()],
        ];
        assert_eq!(
            table(["reason", "letters", "said"], &rows),
            "reason     letters  said\n\
             rejected        62  no `€`\n\
             exhausted    1,204  503\n"
        );
    }
}
