//! The width of the window in which the output is read.

use std::io::{self, IsTerminal};

use terminal_size::{Width, terminal_size, terminal_size_of};

/// The width of a screen whose window is unknown.
const DEFAULT: usize = 80;
/// The smallest width to which the output adapts.
const MIN: usize = 40;

/// The window of stdout or stderr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// The width in columns; `None`: the output goes to a file or a pipe.
    columns: Option<usize>,
}

impl Window {
    /// The window of stdout: as wide as `COLUMNS` says, or else as wide as the terminal.
    pub(crate) fn of_stdout() -> Window {
        let given = std::env::var("COLUMNS").ok();
        let terminal = io::stdout()
            .is_terminal()
            .then(|| terminal_size().map_or(DEFAULT, |(Width(columns), _)| columns.into()));
        Window::of(given.as_deref(), terminal)
    }

    /// The window of stderr. Messages to a file or a pipe have none, whatever `COLUMNS` says.
    pub(crate) fn of_stderr() -> Window {
        if !io::stderr().is_terminal() {
            return Window { columns: None };
        }
        let given = std::env::var("COLUMNS").ok();
        let terminal = terminal_size_of(io::stderr());
        let terminal = terminal.map_or(DEFAULT, |(Width(columns), _)| columns.into());
        Window::of(given.as_deref(), Some(terminal))
    }

    fn of(given: Option<&str>, terminal: Option<usize>) -> Window {
        let given = given
            .and_then(|columns| columns.trim().parse().ok())
            .filter(|columns| *columns > 0);
        Window {
            columns: given.or(terminal).map(|columns| columns.max(MIN)),
        }
    }

    /// The width of tables and texts; `None`: nothing is cut, because a program may read it.
    pub(crate) fn columns(self) -> Option<usize> {
        self.columns
    }

    /// The width of a screen, which is made for people: 80 columns in a file or a pipe.
    pub(crate) fn screen(self) -> usize {
        self.columns.unwrap_or(DEFAULT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_take_precedence_over_the_terminal() {
        for (given, terminal, columns) in [
            (None, None, None),
            (None, Some(200), Some(200)),
            (Some("60"), Some(200), Some(60)),
            (Some("60"), None, Some(60)),
            (Some("0"), Some(132), Some(132)),
            (Some("wide"), None, None),
            (Some("3"), None, Some(40)),
        ] {
            let window = Window::of(given, terminal);
            assert_eq!(window.columns(), columns, "{given:?} {terminal:?}");
            assert_eq!(window.screen(), columns.unwrap_or(80));
        }
    }
}
