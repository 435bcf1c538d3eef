//! A dead letter as text and as JSON.

mod timeline;
mod json;

use std::io::Write;

use redrive::HeldGroup;
use redrive::dlq::runs::{RunLetter, RunOutcome};
use redrive::dlq::{AttemptRecord, Letter, LetterState, Skip};

use crate::prelude::*;
use crate::terminal::{Style, write_labelled};

pub(crate) use json::{attempt_lines, letter_line, whole_letter_line};

/// The most captured bytes that are printed as text.
const MAX_RAW_BYTES: usize = 4096;

/// Prints a letter: details, payload, error and timeline, with its outcome in these runs and the group of jobs that it
/// holds.
pub(crate) fn print_letter(
    out: &mut dyn Write,
    letter: &Letter,
    runs: &[RunLetter],
    held: Option<&HeldGroup>,
) -> Result<()> {
    let style = Style::of_stdout();
    let archived = letter
        .archived_at
        .map(|at| format!(", archived {} ago", ago(at)));
    let archived = archived.unwrap_or_default();
    let heading = format!(
        "letter {}: {}, {}{archived}",
        letter.id, letter.state, letter.cause
    );
    writeln!(out, "{}\n", style.heading(&heading))?;
    details(letter, runs, held).write(11, out)?;
    if let Some(payload) = &letter.payload {
        writeln!(out, "\n{}", style.heading("Payload:"))?;
        writeln!(out, "{}", clean(&pretty(payload.get())))?;
    }
    if let Some(raw) = &letter.raw {
        let content_type = letter.content_type.as_deref().unwrap_or("unknown type");
        let size = letter.raw_size.unwrap_or(raw.len() as u64);
        let heading = format!("Captured, {size} bytes of {}:", one_line(content_type));
        writeln!(out, "\n{}", style.heading(&heading))?;
        writeln!(out, "{}", escaped(raw, size))?;
    }
    writeln!(out, "\n{}", style.heading("Error:"))?;
    writeln!(out, "  {}", one_line(&letter.error_class))?;
    print_indented(out, &letter.error_message)?;
    if let Some(detail) = &letter.error_detail {
        let heading = match letter.detail_is_shared {
            true => "Detail (of the failure group):",
            false => "Detail:",
        };
        writeln!(out, "\n{}", style.heading(heading))?;
        print_indented(out, detail)?;
    }
    writeln!(out, "\n{}", style.heading("Timeline:"))?;
    for entry in timeline::of(letter, runs) {
        print_entry(out, &entry)?;
    }
    Ok(())
}

/// Prints the commands to type next, by the state of the letter.
pub(crate) fn print_next(letter: &Letter, cx: &mut Context<'_>) -> Result<()> {
    let (id, group) = (letter.id, letter.group);
    let commands = match letter.state {
        _ if letter.archived_at.is_some() => vec![format!("{Me} dlq archive restore {id}")],
        LetterState::Open => vec![
            format!("{Me} dlq list group={group}"),
            format!("{Me} dlq redrive {id}"),
            format!("{Me} dlq discard {id} --reason TEXT"),
        ],
        LetterState::Quarantined => vec![
            format!("{Me} dlq list group={group} state=quarantined"),
            format!("{Me} dlq redrive {id} --force --reason TEXT"),
            format!("{Me} dlq discard {id} --reason TEXT"),
        ],
        LetterState::Redriving => vec![format!("{Me} job show {id}")],
        LetterState::Discarded => vec![format!("{Me} dlq reopen {id}")],
        LetterState::Recovered | _ => return Ok(()),
    };
    writeln!(cx.out, "\n{}", Style::of_stdout().heading("Next:"))?;
    for command in commands {
        cx.print_command(&command)?;
    }
    Ok(())
}

/// The details of a letter, and its outcome in each run, also in those that skipped it.
fn details(letter: &Letter, runs: &[RunLetter], held: Option<&HeldGroup>) -> Details {
    let captured = letter.source.as_ref().map(|source| {
        let position = letter.position.as_deref().unwrap_or("?");
        match letter.seen {
            1 => format!("from {source} at {position}"),
            times => format!("from {source} at {position}, {times} times"),
        }
    });
    let worker = letter.worker.map(|worker| {
        let host = letter.host.as_deref().unwrap_or("an unknown host");
        let pid = letter.pid.map(|pid| format!(", process {pid}"));
        format!("{worker} on {host}{}", pid.unwrap_or_default())
    });
    let redacted = letter.redacted.iter().map(|pointer| match &**pointer {
        "" => "the captured bytes",
        pointer => pointer,
    });
    let redacted = redacted.collect::<Vec<_>>().join(" ");
    let held = held.map(|held| {
        format!(
            "group {} for {}: {} behind it, {} diverted",
            held.group,
            ago(held.held_at),
            counted(held.waiting, "waiting job"),
            counted(held.diverted, "letter")
        )
    });
    let has_edits = letter.edits > 0;
    let mut details = Details::default();
    details
        .add("queue", &letter.queue)
        .add("kind", &letter.kind)
        .add("group", letter.group)
        .some("job group", letter.group_key.as_ref())
        .some("captured", captured)
        .some("headers", letter.headers.as_ref())
        .add(
            "attempts",
            format!("{} of {}", letter.attempts, letter.max_attempts),
        )
        .add("generation", letter.generation)
        .add("deaths", letter.deaths)
        .some("edits", has_edits.then_some(letter.edits))
        .add("priority", letter.priority)
        .some("worker", worker)
        .some("version", letter.version.as_ref())
        .add("died", format!("{} ago", ago(letter.died_at)))
        .some(
            "claimed",
            letter
                .claimed_until
                .map(|at| format!("by a consumer until {}", rfc3339(at))),
        )
        .some("discarded", letter.discard_reason.as_ref())
        .some(
            "redacted",
            (!redacted.is_empty()).then(|| format!("{redacted}; only --force sends it back")),
        )
        .some("holds", held);
    for run in runs {
        let outcome = outcome_text(run.outcome, run.skip);
        details.add(format!("run {}", run.run), outcome);
    }
    details
}

/// The outcome of a letter in a run, and why it was skipped.
pub(crate) fn outcome_text(outcome: RunOutcome, skip: Option<Skip>) -> String {
    let why = skip.map_or_else(String::new, |why| format!(": {why}"));
    format!("{outcome}{why}")
}

pub(crate) fn print_attempts(out: &mut dyn Write, history: &[AttemptRecord]) -> Result<()> {
    for record in history {
        print_entry(out, &timeline::attempt(record))?;
    }
    Ok(())
}

fn print_entry(out: &mut dyn Write, entry: &timeline::Entry) -> Result<()> {
    let at = format!("  {}  ", one_line(&entry.at));
    write_labelled(out, &at, &one_line(&entry.text))
}

pub(crate) fn print_indented(out: &mut dyn Write, text: &str) -> Result<()> {
    for line in clean(text).lines() {
        write_labelled(out, "  ", line)?;
    }
    Ok(())
}

/// Captured bytes as text. Line breaks stay; everything except printable ASCII is escaped. Of `size` bytes,
/// `raw` has all or the start.
fn escaped(raw: &[u8], size: u64) -> String {
    let mut text = "  ".to_owned();
    for byte in &raw[..raw.len().min(MAX_RAW_BYTES)] {
        match byte {
            b'\n' => text.push_str("\n  "),
            b'\\' => text.push_str("\\\\"),
            b' '..=b'~' => text.push(char::from(*byte)),
            other => text.extend(other.escape_ascii().map(char::from)),
        }
    }
    let all = match size > raw.len() as u64 {
        true => format!("`{Me} dlq show --raw`"),
        false => "--json".to_owned(),
    };
    match size.saturating_sub(MAX_RAW_BYTES as u64) {
        0 => text,
        more => format!("{text}\n  [... {more} more bytes; {all} prints all ...]"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_bytes_are_escaped_and_cut() {
        assert_eq!(
            escaped(b"{\"a\":\x1b\xff}\nx", 10),
            "  {\"a\":\\x1b\\xff}\n  x"
        );
        assert!(
            escaped(&[0; 10_000], 10_000).ends_with("[... 5904 more bytes; --json prints all ...]")
        );
        assert!(
            escaped(&[0; 5000], 10_000)
                .ends_with("5904 more bytes; `redrive dlq show --raw` prints all ...]")
        );
    }
}
