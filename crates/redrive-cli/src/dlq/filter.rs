//! Conditions on letters, as arguments and flags.

use std::str::FromStr;

use clap::Args;
use redrive::dlq::{DeathCause, LetterFilter, LetterState};

use crate::error::Result;
use crate::terminal::clean;

/// The conditions, for the help of every command that takes them.
pub(crate) fn conditions_help() -> String {
    format!(
        "\
Conditions on letters (a letter must meet all of them):
{}

Numbers and values of the payload also take != < <= > and >=, and texts in the
payload take ~ for a part. 'age>2h' died more than two hours ago, 'age<2h' less
than two hours ago. Ages are durations as in flags: 500ms, 90s, 1h30m, 1.5h, 7d.
A time without Z or an offset is UTC. Separate several values with commas. Pass
each condition as one argument, in single quotes if it contains spaces or <, >
or \".",
        LetterFilter::help()
    )
}

/// Conditions on letters besides their queue.
#[derive(Args, Debug, Default)]
#[command(next_help_heading = "Selection")]
#[group(skip)]
pub(crate) struct FilterArgs {
    /// Conditions that a letter must meet, such as class=Timeout 'age>2h'; see below. The first
    /// argument may be a condition instead of a queue.
    #[arg(value_name = "CONDITION")]
    pub(super) conditions: Vec<String>,
    /// Only letters of this kind.
    #[arg(long)]
    pub(super) kind: Option<String>,
    /// Only letters with this cause of death: exhausted, rejected, undecodable, unhandled, timeout,
    /// `worker_lost`, expired, captured, manual, diverted.
    #[arg(long)]
    pub(super) cause: Option<DeathCause>,
    /// Only letters whose last error has this class.
    #[arg(long, value_name = "CLASS")]
    pub(super) class: Option<String>,
}

impl FilterArgs {
    /// The filter for a queue, or for all queues. An argument with an operator is a condition
    /// instead of a queue.
    pub(crate) fn letters(&self, queue: Option<&str>) -> Result<LetterFilter> {
        let first = match queue {
            Some(condition) if is_condition(condition) => LetterFilter::parse_condition(condition)?,
            Some(queue) => LetterFilter::new().queue(queue),
            None => LetterFilter::new(),
        };
        self.narrow(first)
    }

    /// Whether there are conditions besides the queue, the kind and the class.
    pub(super) fn has_conditions(&self, queue: Option<&str>) -> bool {
        !self.conditions.is_empty() || self.cause.is_some() || queue.is_some_and(is_condition)
    }

    /// Adds the conditions to a filter.
    pub(super) fn narrow(&self, letters: LetterFilter) -> Result<LetterFilter> {
        let mut flags = LetterFilter::new();
        if let Some(kind) = &self.kind {
            flags = flags.kind(kind);
        }
        if let Some(cause) = self.cause {
            flags = flags.cause(cause);
        }
        if let Some(class) = &self.class {
            flags = flags.error_class(class);
        }
        let mut filter = letters.and(flags)?;
        for condition in &self.conditions {
            filter = filter.and(LetterFilter::parse_condition(condition)?)?;
        }
        Ok(filter)
    }

    /// The same conditions as arguments for a shell.
    pub(super) fn words(&self) -> Vec<String> {
        let cause = self.cause.map(|cause| cause.to_string());
        let options = [
            ("--kind", &self.kind),
            ("--cause", &cause),
            ("--class", &self.class),
        ];
        let given = options
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_ref()?)));
        let flags = given.flat_map(|(name, value)| [name.to_owned(), quoted(value)]);
        let conditions = self.conditions.iter().map(|condition| quoted(condition));
        conditions.chain(flags).collect()
    }
}

/// A state of letters, or any state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StateArg {
    Only(LetterState),
    /// Open or quarantined.
    Waiting,
    Any,
}

impl StateArg {
    pub(super) fn filter(self) -> LetterFilter {
        match self {
            StateArg::Only(state) => LetterFilter::new().state(state),
            StateArg::Waiting => {
                LetterFilter::new().states([LetterState::Open, LetterState::Quarantined])
            }
            StateArg::Any => LetterFilter::new().any_state(),
        }
    }
}

impl FromStr for StateArg {
    type Err = String;

    fn from_str(text: &str) -> Result<StateArg, String> {
        match text {
            "any" => Ok(StateArg::Any),
            "waiting" => Ok(StateArg::Waiting),
            state => state
                .parse()
                .map(StateArg::Only)
                .map_err(|error: redrive::Error| format!("{error}, waiting and any")),
        }
    }
}

/// Whether an argument is a condition and not the name of a queue.
pub(crate) fn is_condition(argument: &str) -> bool {
    argument.contains(['=', '<', '>', '~'])
}

/// Adds the option that gives a reason to a command.
pub(crate) fn with_reason(command: impl Into<String>, reason: Option<&str>) -> String {
    let reason = reason.map(|reason| format!(" --reason {}", quoted(reason)));
    command.into() + &reason.unwrap_or_default()
}

/// Quotes a word for a shell. Dangerous characters, which a name in the database may contain, are
/// shown as escapes.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "_-./:@+,=".contains(character);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", clean(word).replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        let filter = FilterArgs {
            conditions: vec!["age>2h".to_owned(), "version=1.4".to_owned()],
            kind: Some("order.placed".to_owned()),
            cause: Some(DeathCause::WorkerLost),
            class: Some("it's exit 1".to_owned()),
        };
        assert_eq!(
            filter.words().join(" "),
            r"'age>2h' version=1.4 --kind order.placed --cause worker_lost --class 'it'\''s exit 1'"
        );
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("$(rm)"), "'$(rm)'");
        assert_eq!(quoted("a\u{202e}b"), r"'a\u{202e}b'");
    }

    #[test]
    fn an_argument_with_spaces_is_one_condition() {
        let text = |condition: &str| {
            let filter = FilterArgs {
                conditions: vec![condition.to_owned()],
                ..FilterArgs::default()
            };
            filter.letters(None).expect(condition).to_string()
        };
        for (argument, condition) in [
            ("class=exit 1", r#"class="exit 1""#),
            ("class=exit 1,Timeout", r#"class="exit 1",Timeout"#),
            ("message~card declined", r#"message~"card declined""#),
            (r#"message~"card declined""#, r#"message~"card declined""#),
            ("payload.a>=x, y", r#"payload.a>="x, y""#),
            (" age>2h ", "age>2h"),
        ] {
            assert_eq!(text(argument), condition, "{argument}");
        }
    }

    #[test]
    fn the_first_argument_is_a_queue_unless_it_has_an_operator() {
        let filter = FilterArgs {
            conditions: vec!["age>2h".to_owned()],
            class: Some("Time out".to_owned()),
            ..FilterArgs::default()
        };
        let text = |first| filter.letters(first).expect("a filter").to_string();
        assert_eq!(
            text(Some("orders")),
            r#"queue=orders class="Time out" age>2h"#
        );
        assert_eq!(text(Some("kind=a")), r#"kind=a class="Time out" age>2h"#);
        assert_eq!(text(None), r#"class="Time out" age>2h"#);
        assert!(filter.letters(Some("class=x")).is_err(), "given twice");
        let ids = LetterFilter::new().ids([redrive::JobId::new(7)]);
        assert_eq!(
            filter.narrow(ids).expect("a filter").to_string(),
            r#"class="Time out" id=7 age>2h"#
        );
    }
}
