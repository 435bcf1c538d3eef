//! Suggestions for unknown commands: never one that deletes, and the commands of queues for `pause` and `resume`.

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue};

/// Commands that delete or close, which no typing error may lead to.
const NEVER_SUGGESTED: [&str; 4] = ["prune", "erase", "discard", "delete"];

/// Corrects the suggestions of a usage error.
pub(crate) fn corrected(mut error: clap::Error) -> clap::Error {
    let hint = match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(unknown)) => hint(unknown),
        _ => return error,
    };
    let similar = error.remove(ContextKind::SuggestedSubcommand);
    if let Some(hint) = hint {
        let hints = vec![StyledStr::from(hint)];
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(hints));
    } else if let Some(ContextValue::Strings(mut similar)) = similar {
        similar.retain(|command| !NEVER_SUGGESTED.contains(&command.as_str()));
        if !similar.is_empty() {
            let similar = ContextValue::Strings(similar);
            error.insert(ContextKind::SuggestedSubcommand, similar);
        }
    }
    error
}

/// What to type instead of a word that is no command.
fn hint(unknown: &str) -> Option<&'static str> {
    match unknown {
        "pause" => Some("to pause a queue: redrive queue pause NAME"),
        "resume" => Some("to resume a queue: redrive queue resume NAME"),
        _ => None,
    }
}
