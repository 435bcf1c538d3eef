//! Bold and colored text on terminals.

use std::io;

use anstream::{AutoStream, ColorChoice};
use anstyle::AnsiColor;

/// Decides whether text on a stream is styled: on a terminal, unless `NO_COLOR` is set (<https://no-color.org>), and
/// elsewhere if `CLICOLOR_FORCE` is (<https://bixense.com/clicolors>), as for `redrive dlq | less -R`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    has_colors: bool,
}

impl Style {
    pub(crate) fn of_stdout() -> Style {
        Style {
            has_colors: AutoStream::choice(&io::stdout()) != ColorChoice::Never,
        }
    }

    pub(crate) fn of_stderr() -> Style {
        Style {
            has_colors: AutoStream::choice(&io::stderr()) != ColorChoice::Never,
        }
    }

    #[cfg(test)]
    pub(crate) fn plain() -> Style {
        Style { has_colors: false }
    }

    pub(crate) fn has_colors(self) -> bool {
        self.has_colors
    }

    pub(crate) fn heading(self, text: &str) -> String {
        self.apply(anstyle::Style::new().bold(), text)
    }

    /// An error, in bold red.
    pub(crate) fn error(self, text: &str) -> String {
        self.apply(colored(AnsiColor::Red).bold(), text)
    }

    /// A removed line, in red.
    pub(crate) fn removed(self, text: &str) -> String {
        self.apply(colored(AnsiColor::Red), text)
    }

    /// An added line, in green.
    pub(crate) fn added(self, text: &str) -> String {
        self.apply(colored(AnsiColor::Green), text)
    }

    fn apply(self, style: anstyle::Style, text: &str) -> String {
        match self.has_colors {
            true => format!("{style}{text}{style:#}"),
            false => text.to_owned(),
        }
    }
}

fn colored(color: AnsiColor) -> anstyle::Style {
    anstyle::Style::new().fg_color(Some(color.into()))
}
