//! Which letters a command means.

use clap::Args;
use redrive::{Letters, Reason};

/// What letters may be chosen by, besides their queue.
#[derive(Args, Debug, Default)]
pub(crate) struct Filter {
    /// Only letters of this kind.
    #[arg(long)]
    pub(crate) kind: Option<String>,
    /// Only letters that died for this reason: exhausted, rejected, undecodable, unhandled,
    /// timeout, `worker_lost`, expired, captured, manual.
    #[arg(long)]
    pub(crate) reason: Option<Reason>,
    /// Only letters whose last error has this class.
    #[arg(long, value_name = "CLASS")]
    pub(crate) class: Option<String>,
}

impl Filter {
    /// The letters of a queue, or of all, that pass.
    pub(crate) fn letters(&self, queue: Option<&str>) -> Letters {
        self.narrow(queue.map_or_else(Letters::all, Letters::queue))
    }

    /// Those of some letters that pass.
    pub(crate) fn narrow(&self, mut letters: Letters) -> Letters {
        if let Some(kind) = &self.kind {
            letters = letters.kind(kind);
        }
        if let Some(reason) = self.reason {
            letters = letters.reason(reason);
        }
        if let Some(class) = &self.class {
            letters = letters.error_class(class);
        }
        letters
    }

    /// The arguments that mean the same, for a command line to be typed.
    pub(crate) fn words(&self) -> Vec<String> {
        let reason = self.reason.map(|reason| reason.to_string());
        let options = [
            ("--kind", &self.kind),
            ("--reason", &reason),
            ("--class", &self.class),
        ];
        let given = options
            .into_iter()
            .filter_map(|(name, value)| Some((name, value.as_ref()?)));
        given
            .flat_map(|(name, value)| [name.to_owned(), quoted(value)])
            .collect()
    }
}

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "_-./:@+,".contains(character);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_mean_the_same_to_a_shell() {
        let filter = Filter {
            kind: Some("order.placed".to_owned()),
            reason: Some(Reason::WorkerLost),
            class: Some("it's exit 1".to_owned()),
        };
        assert_eq!(
            filter.words().join(" "),
            r"--kind order.placed --reason worker_lost --class 'it'\''s exit 1'"
        );
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("$(rm)"), "'$(rm)'");
    }
}
