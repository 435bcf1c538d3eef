//! The message when nothing matches: the states in which letters are, or that there is no such queue.

use redrive::dlq::{LetterFilter, LetterState};

use crate::prelude::*;

/// How many queues are named.
const NAMED: u32 = 5;

/// Says that a command that takes letters in these states found none, and how many are in others. `queue` is the
/// one that the command names, and the states of the filter are ignored. `way` tells how to include quarantined ones.
pub(super) fn none_matched(
    what: &str,
    queue: Option<&str>,
    filter: &LetterFilter,
    takes: &[LetterState],
    way: Option<&str>,
    cx: &mut Context<'_>,
) -> Result<Ending> {
    let db = &cx.database()?;
    let missing = queue.map(|queue| missing_queue(queue, db));
    if let Some(missing) = missing.transpose()?.flatten() {
        return cx.nothing(format!("{what}: {missing}"));
    }
    let mut counts: Vec<String> = takes.iter().map(|state| format!("0 {state}")).collect();
    let mut hint = String::new();
    for state in LetterState::ALL {
        let of_state = filter.clone().state(state);
        let letters = match takes.contains(&state) {
            true => 0,
            false => db.dlq().count(&of_state)?,
        };
        if letters > 0 {
            counts.push(format!("{} {state}", grouped(letters)));
            let way = way.filter(|_| state == LetterState::Quarantined);
            hint.extend(way.map(|way| format!("; {way}")));
        }
    }
    match counts.len() > takes.len() {
        true => cx.nothing(format!("{what}: {}{hint}", counts.join(", "))),
        false => cx.nothing(what),
    }
}

/// Says that no open letter matches, or whichever states the command takes.
pub(super) fn none_of(
    takes: &[LetterState],
    selection: &Selection,
    filter: &LetterFilter,
    way: Option<&str>,
    cx: &mut Context<'_>,
) -> Result<Ending> {
    let what = format!("no {} letter matches", words(takes));
    none_matched(&what, selection.queue(), filter, takes, way, cx)
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
    let queues = db.admin().queue_names(queue, NAMED + 1)?;
    if queues.is_known {
        return Ok(None);
    }
    let missing = format!("there is no queue `{}`", one_line(queue));
    let names = queues.names.iter().take(NAMED as usize);
    let names: Vec<String> = names.map(|name| format!("`{}`", one_line(name))).collect();
    let (verb, others) = match queues.names.len() {
        0 => return Ok(Some(missing)),
        1 => ("is", ""),
        more if more > names.len() => ("are", " and others"),
        _ => ("are", ""),
    };
    Ok(Some(format!(
        "{missing}; there {verb} {}{others}",
        names.join(", ")
    )))
}

/// The states as words: `open or quarantined`.
pub(super) fn words(states: &[LetterState]) -> String {
    let words: Vec<&str> = states.iter().map(|state| state.as_str()).collect();
    words.join(" or ")
}
