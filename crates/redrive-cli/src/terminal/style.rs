//! Bold and colored text on terminals.

use std::ffi::OsString;
use std::io::{self, IsTerminal};

use anstyle::AnsiColor;

/// Decides whether text on a stream is styled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    has_colors: bool,
}

impl Style {
    /// The style of stdout.
    pub(crate) fn of_stdout() -> Style {
        Style {
            has_colors: wants_colors(&io::stdout(), |name| std::env::var_os(name)),
        }
    }

    /// The style of stderr.
    pub(crate) fn of_stderr() -> Style {
        Style {
            has_colors: wants_colors(&io::stderr(), |name| std::env::var_os(name)),
        }
    }

    #[cfg(test)]
    pub(crate) fn plain() -> Style {
        Style { has_colors: false }
    }

    #[cfg(test)]
    pub(crate) fn colored() -> Style {
        Style { has_colors: true }
    }

    pub(crate) fn has_colors(self) -> bool {
        self.has_colors
    }

    /// A heading, in bold.
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

/// Colors are for terminals, unless `NO_COLOR` is set (<https://no-color.org>). `CLICOLOR_FORCE`
/// enables them elsewhere (<https://bixense.com/clicolors>), as for `redrive dlq | less -R`.
fn wants_colors(stream: &impl IsTerminal, variable: impl Fn(&str) -> Option<OsString>) -> bool {
    let value = |name| variable(name).filter(|value| !value.is_empty());
    if value("NO_COLOR").is_some() {
        return false;
    }
    let forced = value("CLICOLOR_FORCE").is_some_and(|value| value != "0");
    let capable = value("TERM").is_none_or(|term| term != "dumb");
    forced || (capable && stream.is_terminal())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_follow_the_environment_when_the_output_is_a_file() {
        let file = std::fs::File::open("/dev/null").expect("a file");
        for (set, expected) in [
            (&[][..], false),
            (&[("CLICOLOR_FORCE", "1")], true),
            (&[("CLICOLOR_FORCE", "0")], false),
            (&[("CLICOLOR_FORCE", "")], false),
            (&[("CLICOLOR_FORCE", "1"), ("TERM", "dumb")], true),
            (&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")], false),
            (&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "")], true),
        ] {
            let variable = |name: &str| {
                let found = set.iter().find(|(set, _)| *set == name);
                found.map(|(_, value)| OsString::from(value))
            };
            assert_eq!(wants_colors(&file, variable), expected, "{set:?}");
        }
    }
}
