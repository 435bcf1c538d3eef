//! Suggestions for unknown commands: never one that deletes, and the commands of queues for `pause` and `resume`.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};

use crate::name::Me;

/// Commands that delete, which no typing error may lead to.
const NEVER_SUGGESTED: [&str; 2] = ["prune", "discard"];

/// Corrects the suggestions of a usage error.
pub(crate) fn corrected(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(unknown)) = error.get(ContextKind::InvalidSubcommand) else {
        return error;
    };
    let hint = hint(unknown);
    let similar = match error.remove(ContextKind::SuggestedSubcommand) {
        Some(ContextValue::Strings(similar)) => similar,
        Some(ContextValue::String(similar)) => vec![similar],
        _ => Vec::new(),
    };
    let is_harmless = |command: &String| !NEVER_SUGGESTED.contains(&command.as_str());
    let similar: Vec<String> = similar.into_iter().filter(is_harmless).collect();
    if let Some(hint) = hint {
        let hints = vec![StyledStr::from(hint)];
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(hints));
    } else if !similar.is_empty() {
        error.insert(
            ContextKind::SuggestedSubcommand,
            ContextValue::Strings(similar),
        );
    }
    error
}

/// Returns the command to type instead of a word that is no command.
fn hint(unknown: &str) -> Option<String> {
    match unknown {
        "pause" => Some(format!("to pause a queue: {Me} queue pause NAME")),
        "resume" | "unpause" => Some(format!("to resume a queue: {Me} queue resume NAME")),
        _ => None,
    }
}
