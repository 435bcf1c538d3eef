//! The message when no letter matches: where the letters are, and the command that finds them.

use redrive::dlq::{LetterFilter, LetterState};
use strsim::levenshtein;

use crate::prelude::*;
use crate::typed::Typed;

/// How many queues are compared with a name that does not exist.
const QUEUES: u32 = 1000;
/// How many queues are named.
const NAMED: usize = 5;

/// The command that finds letters in another state.
pub(super) enum Again {
    /// The list of the letters.
    List,
    /// The typed command, with its options, for any state.
    Typed,
    /// The typed command with these words, if the letters are quarantined.
    Quarantined(Vec<&'static str>),
}

/// A command on letters that found none.
pub(super) struct NoneMatched<'a> {
    /// The queue, if the command names one.
    queue: Option<&'a str>,
    /// The filter of the command; its states are ignored.
    filter: &'a LetterFilter,
    /// The states of the letters that the command takes.
    states: &'a [LetterState],
    /// The first words of the message, such as `no open letter matches`.
    pub(super) what: String,
    pub(super) again: Again,
}

impl<'a> NoneMatched<'a> {
    /// A command that lists the letters in other states.
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
            again: Again::List,
        }
    }

    /// Says that nothing matched and what would match.
    pub(super) fn say(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = &cx.database()?;
        let missing = self.queue.map(|queue| missing_queue(queue, db));
        let hint = match missing.transpose()?.flatten() {
            Some(hint) => Some(hint),
            None => self.other_states(&cx.typed, db)?,
        };
        cx.nothing(match hint {
            Some(hint) => format!("{}: {hint}", self.what),
            None => self.what.clone(),
        })
    }

    /// Letters in states that the command does not take, and the command that takes or lists
    /// them.
    fn other_states(&self, typed: &Typed, db: &Database) -> Result<Option<String>> {
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
        let in_state = format!("state={state}");
        let command = match (&self.again, state) {
            (Again::Typed, _) => typed.without("state", &[&*in_state]),
            (Again::Quarantined(words), LetterState::Quarantined) => typed.without("state", words),
            (Again::Quarantined(_) | Again::List, _) => {
                let conditions = self.filter.conditions().into_iter();
                let mut conditions: Vec<String> = conditions
                    .filter(|condition| !condition.starts_with("state="))
                    .collect();
                conditions.push(in_state);
                let quoted: Vec<String> = conditions.iter().map(|of| quoted(of)).collect();
                format!("{Me} dlq list {}", quoted.join(" "))
            }
        };
        let none = self.states.iter().map(|state| format!("0 {state}"));
        let some = found
            .iter()
            .map(|(state, letters)| format!("{} {state}", grouped(*letters)));
        let counts: Vec<String> = none.chain(some).collect();
        Ok(Some(format!("{}: {command}", counts.join(", "))))
    }
}

/// Says that nothing matches, or that there is no such queue.
pub(crate) fn none_in(
    queue: Option<&str>,
    none: impl Into<String>,
    cx: &mut Context<'_>,
) -> Result<Ending> {
    let db = &cx.database()?;
    let missing = queue.map(|queue| missing_queue(queue, db)).transpose()?;
    cx.nothing(missing.flatten().unwrap_or_else(|| none.into()))
}

/// Says that a queue does not exist, and names queues that do; `None`: it has jobs, letters or a worker.
pub(crate) fn missing_queue(queue: &str, db: &Database) -> Result<Option<String>> {
    let queues = db.admin().queue_names(queue, QUEUES)?;
    Ok((!queues.is_known).then(|| no_queue(queue, &queues.names)))
}

fn no_queue(queue: &str, names: &[String]) -> String {
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

/// The states as words: `open or quarantined`.
pub(super) fn words(states: &[LetterState]) -> String {
    let words: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
    words.join(" or ")
}

/// Returns the name that is most similar to a mistyped one, if one is similar enough: a third of
/// its characters may differ.
fn similar<'a>(typed: &str, names: &'a [String]) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let longest = typed.chars().count();
    let distances = names
        .iter()
        .map(|name| (levenshtein(&typed, &name.to_lowercase()), name));
    let (nearest, name) = distances.min_by_key(|(distance, _)| *distance)?;
    let tolerated = longest.max(name.chars().count()) / 3;
    (nearest <= tolerated.max(1)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_similar_name_is_found() {
        let names = ["payments", "orders", "mails-eu"].map(str::to_owned);
        for (typed, meant) in [
            ("paymets", Some("payments")),
            ("Orders", Some("orders")),
            ("order", Some("orders")),
            ("mail-eu", Some("mails-eu")),
            ("bills", None),
            ("q", None),
            ("", None),
        ] {
            assert_eq!(similar(typed, &names), meant, "{typed}");
        }
        assert_eq!(similar("orders", &[]), None);
    }
}
