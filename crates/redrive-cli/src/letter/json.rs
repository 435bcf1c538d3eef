//! A letter, its attempts and its events as JSON.

use redrive::HeldGroup;
use redrive::dlq::runs::{LetterRun, RunOutcome};
use redrive::dlq::{AttemptRecord, Letter, LetterEvent};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::time::rfc3339;

/// A letter as one line of JSON.
#[derive(Debug, Serialize)]
pub(crate) struct LetterLine<'a> {
    id: i64,
    queue: &'a str,
    kind: &'a str,
    state: &'a str,
    cause: &'a str,
    error_class: &'a str,
    error_message: &'a str,
    error_detail: Option<&'a str>,
    detail_is_shared: bool,
    group: i64,
    priority: i16,
    attempts: u32,
    earlier_attempts: u32,
    max_attempts: u32,
    crashes: u32,
    generation: u32,
    deaths: u32,
    alike: u32,
    failed_redrives: u32,
    edits: u32,
    run: Option<i64>,
    policy: Option<i64>,
    enqueued_at: String,
    died_at: String,
    changed_at: String,
    worker: Option<String>,
    host: Option<&'a str>,
    version: Option<&'a str>,
    pid: Option<u32>,
    source: Option<&'a str>,
    position: Option<&'a str>,
    seen: u64,
    headers: Option<&'a RawValue>,
    group_key: Option<&'a str>,
    failure_key: Option<&'a str>,
    unique_key: Option<&'a str>,
    content_type: Option<&'a str>,
    audit: Option<i64>,
    redacted: &'a [String],
    discard_reason: Option<&'a str>,
    history: Vec<AttemptLine<'a>>,
    events: Vec<EventLine<'a>>,
    payload: Option<&'a RawValue>,
    /// The captured bytes in hexadecimal.
    raw_hex: Option<String>,
    /// The number of captured bytes, if `raw_hex` has only their start.
    raw_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    runs: Option<Vec<RunOutcomeLine>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holds: Option<HeldGroupLine>,
}

impl LetterLine<'_> {
    /// Adds the outcome of the letter in these runs.
    pub(crate) fn with_runs(mut self, runs: &[LetterRun]) -> Self {
        self.runs = Some(runs.iter().map(RunOutcomeLine::of).collect());
        self
    }

    /// Adds the group of jobs that the letter holds.
    pub(crate) fn with_held(mut self, held: Option<&HeldGroup>) -> Self {
        self.holds = held.map(HeldGroupLine::of);
        self
    }

    pub(crate) fn of(letter: &Letter) -> LetterLine<'_> {
        LetterLine {
            id: letter.id.get(),
            queue: &letter.queue,
            kind: &letter.kind,
            state: letter.state.as_str(),
            cause: letter.cause.as_str(),
            error_class: &letter.error_class,
            error_message: &letter.error_message,
            error_detail: letter.error_detail.as_deref(),
            detail_is_shared: letter.detail_is_shared,
            group: letter.group.get(),
            priority: letter.priority,
            attempts: letter.attempts,
            earlier_attempts: letter.earlier_attempts,
            max_attempts: letter.max_attempts,
            crashes: letter.crashes,
            generation: letter.generation,
            deaths: letter.deaths,
            alike: letter.alike,
            failed_redrives: letter.failed_redrives,
            edits: letter.edits,
            run: letter.run.map(redrive::dlq::runs::RunId::get),
            policy: letter.policy.map(redrive::dlq::PolicyId::get),
            enqueued_at: rfc3339(letter.enqueued_at),
            died_at: rfc3339(letter.died_at),
            changed_at: rfc3339(letter.changed_at),
            worker: letter.worker.map(|worker| worker.to_string()),
            host: letter.host.as_deref(),
            version: letter.version.as_deref(),
            pid: letter.pid,
            source: letter.source.as_deref(),
            position: letter.position.as_deref(),
            seen: letter.seen,
            headers: letter.headers.as_deref(),
            group_key: letter.group_key.as_deref(),
            failure_key: letter.failure_key.as_deref(),
            unique_key: letter.unique_key.as_deref(),
            content_type: letter.content_type.as_deref(),
            audit: letter.audit,
            redacted: &letter.redacted,
            discard_reason: letter.discard_reason.as_deref(),
            history: letter.history.iter().map(AttemptLine::of).collect(),
            events: letter.events.iter().map(EventLine::of).collect(),
            payload: letter.payload.as_deref(),
            raw_hex: letter.raw.as_deref().map(hexadecimal),
            raw_size: letter.raw_size,
            runs: None,
            holds: None,
        }
    }
}

/// The outcome of a letter in a run.
#[derive(Debug, Serialize)]
struct RunOutcomeLine {
    run: i64,
    outcome: &'static str,
    reason: Option<&'static str>,
}

impl RunOutcomeLine {
    fn of(letter_run: &LetterRun) -> RunOutcomeLine {
        RunOutcomeLine {
            run: letter_run.run.get(),
            outcome: letter_run.outcome.as_str(),
            reason: skip_reason(letter_run.outcome),
        }
    }
}

/// The group of jobs that a letter holds.
#[derive(Debug, Serialize)]
struct HeldGroupLine {
    held_at: String,
    waiting: u64,
    diverted: u64,
}

impl HeldGroupLine {
    fn of(held: &HeldGroup) -> HeldGroupLine {
        HeldGroupLine {
            held_at: rfc3339(held.held_at),
            waiting: held.waiting,
            diverted: held.diverted,
        }
    }
}

/// Why a run skipped a letter, in one word.
pub(crate) fn skip_reason(outcome: RunOutcome) -> Option<&'static str> {
    match outcome {
        RunOutcome::Skipped(reason) => Some(reason.as_str()),
        RunOutcome::Waiting
        | RunOutcome::NotTried
        | RunOutcome::Sent
        | RunOutcome::Recovered
        | RunOutcome::DiedAlike
        | RunOutcome::DiedDifferently
        | _ => None,
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value & 15)]);
    bytes
        .iter()
        .flat_map(|byte| [digit(byte >> 4), digit(*byte)])
        .collect()
}

/// An attempt.
#[derive(Debug, Serialize)]
pub(crate) struct AttemptLine<'a> {
    generation: u32,
    attempt: u32,
    outcome: &'a str,
    run_ms: Option<u64>,
    ended_at: Option<&'a str>,
    error_class: Option<&'a str>,
    error_message: Option<&'a str>,
    worker: Option<&'a str>,
    host: Option<&'a str>,
    version: Option<&'a str>,
    pid: Option<u32>,
}

impl AttemptLine<'_> {
    pub(crate) fn of(record: &AttemptRecord) -> AttemptLine<'_> {
        AttemptLine {
            generation: record.generation,
            attempt: record.attempt,
            outcome: &record.outcome,
            run_ms: record.run_ms,
            ended_at: record.ended_at.as_deref(),
            error_class: record.error_class.as_deref(),
            error_message: record.error_message.as_deref(),
            worker: record.worker.as_deref(),
            host: record.host.as_deref(),
            version: record.version.as_deref(),
            pid: record.pid,
        }
    }
}

/// An event.
#[derive(Debug, Serialize)]
struct EventLine<'a> {
    at: Option<&'a str>,
    event: &'a str,
    #[serde(flatten)]
    about: &'a serde_json::Map<String, serde_json::Value>,
}

impl EventLine<'_> {
    fn of(event: &LetterEvent) -> EventLine<'_> {
        EventLine {
            at: event.at.as_deref(),
            event: &event.event,
            about: &event.about,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_two_hexadecimal_digits_each() {
        assert_eq!(hexadecimal(&[0, 0x9f, 0xff]), "009fff");
    }
}
