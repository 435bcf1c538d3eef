//! How a dead letter looks: its whole story for people, one object for programs.

mod timeline;

use std::io::Write;

use redrive::{AttemptRecord, Letter, LetterEvent};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::duration::{ago, rfc3339};
use crate::error::Result;
use crate::render::{Looks, clean, one_line, pretty};

/// How many captured bytes are shown to people.
const RAW_SHOWN: usize = 4096;

/// Writes the whole story of a letter.
pub(crate) fn story(out: &mut dyn Write, letter: &Letter) -> Result<()> {
    let looks = Looks::of_stdout();
    let heading = format!("letter {}: {}, {}", letter.id, letter.state, letter.reason);
    writeln!(out, "{}\n", looks.heading(&heading))?;
    facts(out, letter)?;
    writeln!(out, "\n{}", looks.heading("Timeline:"))?;
    for entry in timeline::of(letter) {
        writeln!(out, "  {}  {}", one_line(&entry.at), one_line(&entry.told))?;
    }
    writeln!(
        out,
        "\n{}\n  {}",
        looks.heading("Error:"),
        one_line(&letter.error_class)
    )?;
    indented(out, &letter.error_message)?;
    if let Some(detail) = &letter.error_detail {
        let heading = match letter.detail_is_shared {
            true => "Detail (that of the group):",
            false => "Detail:",
        };
        writeln!(out, "\n{}", looks.heading(heading))?;
        indented(out, detail)?;
    }
    if let Some(payload) = &letter.payload {
        writeln!(out, "\n{}", looks.heading("Payload:"))?;
        writeln!(out, "{}", clean(&pretty(payload.get())))?;
    }
    if let Some(raw) = &letter.raw {
        let what = letter
            .content_type
            .as_deref()
            .map(one_line)
            .unwrap_or_default();
        writeln!(
            out,
            "\n{}",
            looks.heading(&format!("Captured, {} bytes of {what}:", raw.len()))
        )?;
        writeln!(out, "{}", escaped(raw))?;
    }
    Ok(())
}

fn facts(out: &mut dyn Write, letter: &Letter) -> Result<()> {
    let mut fact = |name: &str, value: &str| -> Result<()> {
        Ok(writeln!(out, "  {name:<11} {}", one_line(value))?)
    };
    fact("queue", &letter.queue)?;
    fact("kind", &letter.kind)?;
    fact("group", &letter.group.to_string())?;
    if let Some(source) = &letter.source {
        let times = match letter.seen {
            1 => String::new(),
            times => format!(", {times} times"),
        };
        let position = letter.position.as_deref().unwrap_or("?");
        fact("captured", &format!("from {source} at {position}{times}"))?;
    }
    if let Some(headers) = &letter.headers {
        fact("headers", headers.get())?;
    }
    fact(
        "attempts",
        &format!("{} of {}", letter.attempts, letter.max_attempts),
    )?;
    fact("generation", &letter.generation.to_string())?;
    fact("deaths", &letter.deaths.to_string())?;
    if letter.edits > 0 {
        fact("edits", &letter.edits.to_string())?;
    }
    fact("priority", &letter.priority.to_string())?;
    if let Some(worker) = letter.worker {
        fact(
            "worker",
            &format!(
                "{worker} on {}{}",
                letter.host.as_deref().unwrap_or("an unknown host"),
                letter
                    .pid
                    .map_or_else(String::new, |pid| format!(", process {pid}"))
            ),
        )?;
    }
    if let Some(version) = &letter.version {
        fact("version", version)?;
    }
    fact("died", &format!("{} ago", ago(letter.died_at)))?;
    if let Some(why) = &letter.discard_reason {
        fact("discarded", why)?;
    }
    Ok(())
}

/// Writes the attempts of a history, a line each.
pub(crate) fn attempts(out: &mut dyn Write, history: &[AttemptRecord]) -> Result<()> {
    for record in history {
        let entry = timeline::attempt(record);
        writeln!(out, "  {}  {}", one_line(&entry.at), one_line(&entry.told))?;
    }
    Ok(())
}

fn indented(out: &mut dyn Write, text: &str) -> Result<()> {
    for line in clean(text).lines() {
        writeln!(out, "  {line}")?;
    }
    Ok(())
}

/// Captured bytes as text: line breaks stay, all that is not printable ASCII is escaped.
fn escaped(raw: &[u8]) -> String {
    let mut shown = "  ".to_owned();
    for byte in &raw[..raw.len().min(RAW_SHOWN)] {
        match byte {
            b'\n' => shown.push_str("\n  "),
            b'\\' => shown.push_str("\\\\"),
            b' '..=b'~' => shown.push(char::from(*byte)),
            other => shown.extend(other.escape_ascii().map(char::from)),
        }
    }
    if raw.len() > RAW_SHOWN {
        let left = raw.len() - RAW_SHOWN;
        shown.push_str(
            &[
                "\n  [... ",
                &left.to_string(),
                " bytes more; --json has them all ...]",
            ]
            .concat(),
        );
    }
    shown
}

/// A letter as a line of JSON.
#[derive(Debug, Serialize)]
pub(crate) struct LetterLine<'a> {
    id: i64,
    queue: &'a str,
    kind: &'a str,
    state: &'a str,
    reason: &'a str,
    error_class: &'a str,
    error_message: &'a str,
    error_detail: Option<&'a str>,
    detail_is_shared: bool,
    group: i64,
    priority: i16,
    attempts: u32,
    max_attempts: u32,
    generation: u32,
    deaths: u32,
    alike: u32,
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
    content_type: Option<&'a str>,
    discard_reason: Option<&'a str>,
    history: Vec<AttemptLine<'a>>,
    events: Vec<EventLine<'a>>,
    payload: Option<&'a RawValue>,
    /// The captured bytes, two hexadecimal digits each.
    raw_hex: Option<String>,
}

impl LetterLine<'_> {
    pub(crate) fn of(letter: &Letter) -> LetterLine<'_> {
        LetterLine {
            id: letter.id.get(),
            queue: &letter.queue,
            kind: &letter.kind,
            state: letter.state.as_str(),
            reason: letter.reason.as_str(),
            error_class: &letter.error_class,
            error_message: &letter.error_message,
            error_detail: letter.error_detail.as_deref(),
            detail_is_shared: letter.detail_is_shared,
            group: letter.group.get(),
            priority: letter.priority,
            attempts: letter.attempts,
            max_attempts: letter.max_attempts,
            generation: letter.generation,
            deaths: letter.deaths,
            alike: letter.alike,
            edits: letter.edits,
            run: letter.run,
            policy: letter.policy,
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
            content_type: letter.content_type.as_deref(),
            discard_reason: letter.discard_reason.as_deref(),
            history: letter.history.iter().map(AttemptLine::of).collect(),
            events: letter.events.iter().map(EventLine::of).collect(),
            payload: letter.payload.as_deref(),
            raw_hex: letter.raw.as_deref().map(hexadecimal),
        }
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

/// One attempt in a line of JSON.
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

/// One event in a line of JSON.
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
    fn captured_bytes_are_escaped_and_bounded() {
        assert_eq!(escaped(b"{\"a\":\x1b\xff}\nx"), "  {\"a\":\\x1b\\xff}\n  x");
        assert!(escaped(&[0; 10_000]).ends_with("[... 5904 bytes more; --json has them all ...]"));
        assert_eq!(hexadecimal(&[0, 0x9f, 0xff]), "009fff");
    }

    #[test]
    fn a_timeline_is_a_safe_line_an_attempt() {
        let mut record = AttemptRecord::default();
        record.attempt = 2;
        record.outcome = "failed".to_owned();
        record.run_ms = Some(1_500);
        record.ended_at = Some("2025-01-02T03:04:05.678901+00:00".to_owned());
        record.error_class = Some("exit 1".to_owned());
        record.error_message = Some("bad\u{1b}\nnews".to_owned());
        let mut out = Vec::new();
        attempts(&mut out, &[record]).expect("memory can be written");
        assert_eq!(
            String::from_utf8_lossy(&out),
            "  2025-01-02T03:04:05.678Z  attempt 2: failed after 1s: exit 1: bad\\u{1b} news\n"
        );
    }
}
