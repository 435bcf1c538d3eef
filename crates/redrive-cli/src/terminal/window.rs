//! The width of the window in which the output is read.

use std::io::{self, IsTerminal as _};

use terminal_size::{Width, terminal_size_of};

/// The width of a screen, which is made for people, in a file or a pipe.
pub(crate) const SCREEN: usize = 80;
/// The smallest width to which the output adapts.
const MIN: usize = 40;

/// The width of stdout: as `COLUMNS` says, or else that of the terminal. `None`: nothing is cut, because a program may
/// read it.
pub(crate) fn columns_of_stdout() -> Option<usize> {
    let stdout = io::stdout();
    let size = || terminal_size_of(&stdout);
    let columns = || size().map_or(SCREEN, |(Width(columns), _)| columns.into());
    let terminal = stdout.is_terminal().then(columns);
    columns_of(std::env::var("COLUMNS").ok().as_deref(), terminal)
}

fn columns_of(given: Option<&str>, terminal: Option<usize>) -> Option<usize> {
    let given = given.and_then(|columns| columns.trim().parse::<usize>().ok());
    let given = given.filter(|columns| *columns > 0);
    given.or(terminal).map(|columns| columns.max(MIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_take_precedence_over_the_terminal() {
        for (given, terminal, expected) in [
            (None, None, None),
            (None, Some(200), Some(200)),
            (Some("60"), Some(200), Some(60)),
            (Some("60"), None, Some(60)),
            (Some("0"), Some(132), Some(132)),
            (Some("wide"), None, None),
            (Some("3"), None, Some(40)),
        ] {
            let columns = columns_of(given, terminal);
            assert_eq!(columns, expected, "{given:?} {terminal:?}");
        }
    }
}
