//! A letter, its attempts and its events as JSON.

use redrive::HeldGroup;
use redrive::dlq::runs::RunLetter;
use redrive::dlq::{AttemptRecord, Letter, LetterEvent, Skip};
use serde::Serialize;

use crate::terminal::object;
use crate::time::{stored, with_stored_times};

/// The stored fields of a letter, and others.
macro_rules! letter_object {
    ($letter:ident $(, $name:ident = $value:expr)*) => { object!($letter =>
        id, queue, kind, state, cause, error_class, error_message, error_detail, detail_is_shared,
        group, priority, attempts, earlier_attempts, max_attempts, crashes, generation, deaths,
        alike, failed_redrives, edits, run, schedule = &$letter.policy, enqueued_at, died_at, changed_at, claimed_until, archived_at,
        worker = $letter.worker.map(|worker| worker.to_string()),
        host, version, pid, source, position, seen, headers, group_key, failure_key, unique_key,
        content_type, audit, redacted, discard_reason,
        history = attempt_lines(&$letter.history),
        events = $letter.events.iter().map(event_line).collect::<Vec<_>>(),
        payload,
        // The captured bytes in hexadecimal.
        raw_hex = $letter.raw.as_deref().map(hexadecimal),
        // The number of captured bytes, if `raw_hex` has only their start.
        raw_size,
        $($name = $value,)*
    ) };
}

pub(crate) fn letter_line(letter: &Letter) -> impl Serialize {
    letter_object!(letter)
}

/// A letter with its outcome in these runs, and the group of jobs that it holds.
pub(crate) fn whole_letter_line(
    letter: &Letter,
    runs: &[RunLetter],
    held: Option<&HeldGroup>,
) -> impl Serialize {
    letter_object!(
        letter,
        runs = runs.iter().map(outcome_line).collect::<Vec<_>>(),
        holds = held.map(|held| object!(held => held_at, waiting, diverted))
    )
}

fn outcome_line(letter: &RunLetter) -> impl Serialize {
    object!(letter => run, outcome = letter.outcome.as_str(), reason = letter.skip.map(Skip::as_str))
}

pub(crate) fn attempt_lines(history: &[AttemptRecord]) -> Vec<impl Serialize> {
    let lines = history.iter().map(|attempt| object!(attempt =>
        generation, attempt, outcome, run_ms, ended_at = attempt.ended_at.as_deref().map(stored), error_class, error_message, worker, host,
        version, pid,
    ));
    lines.collect()
}

fn event_line(event: &LetterEvent) -> impl Serialize {
    let mut line = event.about.clone();
    for (name, shown) in [("by", "person"), ("version", "payload_version")] {
        let value = line.remove(name);
        line.extend(value.map(|value| (shown.to_owned(), value)));
    }
    line.insert("at".to_owned(), event.at.clone().into());
    line.insert("event".to_owned(), event.event.clone().into());
    with_stored_times(&mut line);
    line
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digits = |text: String, byte: &u8| text + &format!("{byte:02x}");
    bytes.iter().fold(String::new(), digits)
}
