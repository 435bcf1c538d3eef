//! Conditions on letters.

use std::str::FromStr;

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

/// A state of letters, or any state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StateArg {
    Only(LetterState),
    /// Open or quarantined.
    Waiting,
    Any,
}

impl StateArg {
    /// The letters in the given state, or else in those that their conditions name, or else the open ones.
    pub(super) fn narrow(
        letters: LetterFilter,
        given: Option<StateArg>,
    ) -> redrive::Result<LetterFilter> {
        match given {
            None => Ok(letters.or_state(LetterState::Open)),
            Some(state) => letters.and(state.filter()),
        }
    }

    fn filter(self) -> LetterFilter {
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
