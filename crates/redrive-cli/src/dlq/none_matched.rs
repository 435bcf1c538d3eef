//! The message when no letter matches: where the letters are, and the command that finds them.

use redrive::dlq::{LetterFilter, LetterState};

use super::similar::similar;
use crate::prelude::*;

/// How many queues are compared with a name that does not exist.
pub(crate) const QUEUES: u32 = 1000;
/// How many queues are named.
const NAMED: usize = 5;

/// A command on letters that found none.
pub(super) struct NoneMatched<'a> {
    /// The queue, if the command names one.
    pub(super) queue: Option<&'a str>,
    /// The filter of the command; its states are ignored.
    pub(super) filter: &'a LetterFilter,
    /// The states of the letters that the command takes.
    pub(super) states: &'a [LetterState],
    /// The first words of the message, such as `no open letter matches`.
    pub(super) what: String,
    /// The subcommand and its options that take quarantined letters with these conditions.
    pub(super) quarantined: &'a dyn Fn(&str) -> String,
}

impl<'a> NoneMatched<'a> {
    /// A command that lists quarantined letters.
    pub(super) fn of(
        queue: Option<&'a str>,
        filter: &'a LetterFilter,
        states: &'a [LetterState],
    ) -> NoneMatched<'a> {
        NoneMatched {
            queue,
            filter,
            states,
            what: format!("no {} letter matches", words(states)),
            quarantined: &|conditions| list_command(conditions, LetterState::Quarantined),
        }
    }

    /// Says that nothing matched and what would match.
    pub(super) fn say(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = &cx.database()?;
        let hint = match self.missing_queue(db)? {
            Some(hint) => Some(hint),
            None => self.other_states(db)?,
        };
        cx.nothing(match hint {
            Some(hint) => format!("{}: {hint}", self.what),
            None => self.what.clone(),
        })
    }

    /// The answer if there is no such queue.
    fn missing_queue(&self, db: &Database) -> Result<Option<String>> {
        let Some(queue) = self.queue else {
            return Ok(None);
        };
        let queues = db.admin().queue_names(queue, QUEUES)?;
        Ok((!queues.is_known).then(|| no_queue(queue, &queues.names)))
    }

    /// Letters in states that the command does not take, and the command that takes or lists
    /// them.
    fn other_states(&self, db: &Database) -> Result<Option<String>> {
        let mut found = Vec::new();
        for state in LetterState::ALL {
            if self.states.contains(&state) {
                continue;
            }
            let letters = db.dlq().count(&self.filter.clone().state(state))?.letters;
            if letters > 0 {
                found.push((state, letters));
            }
        }
        // The state to deal with next.
        let next = found
            .iter()
            .find(|(state, _)| *state == LetterState::Quarantined)
            .or_else(|| found.first());
        let Some((state, _)) = next else {
            return Ok(None);
        };
        let conditions = conditions(self.filter);
        let command = match *state == LetterState::Quarantined {
            true => (self.quarantined)(&conditions),
            false => list_command(&conditions, *state),
        };
        let none = self.states.iter().map(|state| format!("0 {state}"));
        let some = found
            .iter()
            .map(|(state, letters)| format!("{} {state}", grouped(*letters)));
        let counts: Vec<String> = none.chain(some).collect();
        Ok(Some(format!("{}: {command}", counts.join(", "))))
    }
}

/// Says that a queue does not exist, and names queues that do.
pub(crate) fn no_queue(queue: &str, names: &[String]) -> String {
    let missing = format!("there is no queue `{}`", one_line(queue));
    if let Some(meant) = similar(queue, names) {
        return format!("{missing}; did you mean `{}`?", one_line(meant));
    }
    let shown: Vec<String> = names
        .iter()
        .take(NAMED)
        .map(|name| format!("`{}`", one_line(name)))
        .collect();
    match names.len() {
        0 => missing,
        1 => format!("{missing}; the only queue is {}", shown[0]),
        2..=NAMED => format!("{missing}; there are {}", shown.join(", ")),
        _ => format!("{missing}; there are {} and others", shown.join(", ")),
    }
}

/// The command that lists the letters with these conditions in a state.
pub(super) fn list_command(conditions: &str, state: LetterState) -> String {
    match conditions {
        "" => format!("redrive dlq list state={state}"),
        conditions => format!("redrive dlq list {conditions} state={state}"),
    }
}

/// The conditions of a filter as arguments for a shell, without its states.
fn conditions(filter: &LetterFilter) -> String {
    let conditions: Vec<String> = filter
        .conditions()
        .iter()
        .filter(|condition| !condition.starts_with("state="))
        .map(|condition| quoted(condition))
        .collect();
    conditions.join(" ")
}

/// The states as words: `open or quarantined`.
pub(super) fn words(states: &[LetterState]) -> String {
    let words: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
    words.join(" or ")
}
