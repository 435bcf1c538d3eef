//! Matching letters or jobs that a command leaves out, by reason, and the option that includes them.

use std::io::Write;

use serde_json::{Value, json};

use crate::error::Result;
use crate::terminal::counted;

/// Letters or jobs left out for one reason.
pub(crate) struct LeftOut {
    pub(crate) count: u64,
    /// The reason in one word, for JSON.
    pub(crate) reason: &'static str,
    /// The reason as text.
    pub(crate) because: String,
    /// The option or condition that includes them; `None`: there is none.
    pub(crate) include: Option<String>,
}

impl LeftOut {
    /// Letters or jobs that nothing includes, if there are any.
    pub(crate) fn of(count: u64, reason: &'static str, because: &str) -> Option<LeftOut> {
        (count > 0).then(|| LeftOut {
            count,
            reason,
            because: because.to_owned(),
            include: None,
        })
    }
}

/// Prints one line per reason, and an empty one after them.
pub(crate) fn write_left_out(noun: &str, lines: &[LeftOut], out: &mut dyn Write) -> Result<()> {
    for line in lines {
        let include = line.include.as_ref().map(|include| format!("; {include}"));
        let (count, include) = (counted(line.count, noun), include.unwrap_or_default());
        writeln!(out, "  {count} left out: {}{include}", line.because)?;
    }
    if !lines.is_empty() {
        writeln!(out)?;
    }
    Ok(())
}

/// The lines as JSON, with a name for the numbers: `letters` or `jobs`.
pub(crate) fn left_out_json(name: &str, lines: &[LeftOut]) -> Vec<Value> {
    let line = |line: &LeftOut| {
        json!({
            "reason": line.reason, name: line.count, "include": line.include,
        })
    };
    lines.iter().map(line).collect()
}
