//! Matching letters that a command leaves out, by reason, and the option that includes them.

use std::io::Write;

use serde_json::{Value, json};

use crate::error::Result;
use crate::terminal::counted;

/// Letters left out for one reason.
pub(super) struct LeftOutLine {
    pub(super) letters: u64,
    /// The reason in one word, for JSON.
    pub(super) reason: &'static str,
    /// The state, if it is the reason.
    pub(super) state: Option<&'static str>,
    /// The reason as text.
    pub(super) because: String,
    /// The option or condition that includes them; `None`: there is none.
    pub(super) include: Option<String>,
}

/// Prints one line per reason.
pub(super) fn write_left_out(lines: &[LeftOutLine], out: &mut dyn Write) -> Result<()> {
    if lines.is_empty() {
        return Ok(());
    }
    for line in lines {
        let include = match &line.include {
            Some(include) => format!("; {include}"),
            None => String::new(),
        };
        writeln!(
            out,
            "  {} left out: {}{include}",
            counted(line.letters, "letter"),
            line.because
        )?;
    }
    writeln!(out)?;
    Ok(())
}

pub(super) fn left_out_json(lines: &[LeftOutLine]) -> Vec<Value> {
    lines
        .iter()
        .map(|line| {
            json!({
                "reason": line.reason,
                "state": line.state,
                "letters": line.letters,
                "include": line.include,
            })
        })
        .collect()
}

/// The number of letters that match, in words: `12 open letters match`.
pub(super) fn matching(letters: u64, states: &str) -> String {
    let verb = if letters == 1 { "matches" } else { "match" };
    format!("{} {verb}", counted(letters, &format!("{states} letter")))
}
