//! Conditions on letters.

use redrive::dlq::{LetterFilter, LetterState};

/// The conditions, for the help of every command that takes them.
pub(crate) fn conditions_help() -> String {
    format!(
        "\
Conditions on letters (a letter must meet all of them):
{}

Numbers and values of the payload also take != < <= > and >=, and texts in the
payload take ~ for a part. 'age>2h' died more than two hours ago, 'age<2h' less
than two hours ago. Ages are durations as in flags: 500ms, 90s, 1h30m, 1.5h, 7d.
A time without Z or an offset is UTC. Several values of a class, group, cause,
state or id are separated by commas. Pass each condition as one argument, in
single quotes if it contains spaces or <, > or \".",
        LetterFilter::help()
    )
}

/// Parses the value of `--state`: what a condition on the state takes, or `waiting`.
pub(super) fn state(text: &str) -> Result<LetterFilter, redrive::Error> {
    let states = match text {
        "waiting" => "open,quarantined",
        states => states,
    };
    LetterFilter::parse_condition(&format!("state={states}"))
}

/// The letters in the given state, or else in those that their conditions name, or else the open ones.
pub(super) fn narrow(
    letters: LetterFilter,
    given: Option<&LetterFilter>,
) -> redrive::Result<LetterFilter> {
    match given {
        None => Ok(letters.or_state(LetterState::Open)),
        Some(state) => letters.and(state.clone()),
    }
}
