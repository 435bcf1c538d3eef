//! Which letters a command means.

use clap::Args;
use redrive::{Letters, Reason};

use crate::error::Result;
use crate::render::clean;

/// What letters may be chosen by, besides their queue.
#[derive(Args, Debug, Default)]
pub(crate) struct Filter {
    /// Conditions that all hold, such as class=Timeout 'died>2h' payload.customer.id=42; `redrive
    /// dlq --help` has them all. The first word may be one too, in place of a queue.
    #[arg(value_name = "CONDITION")]
    pub(crate) conditions: Vec<String>,
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
    /// The letters of a queue, or of all, that pass. The first word is a queue unless it has an
    /// operator in it: then it is a condition.
    pub(crate) fn letters(&self, queue: Option<&str>) -> Result<Letters> {
        match queue {
            Some(condition) if is_condition(condition) => {
                self.narrow_by(&Letters::all(), Some(condition))
            }
            Some(queue) => self.narrow_by(&Letters::queue(queue), None),
            None => self.narrow_by(&Letters::all(), None),
        }
    }

    /// Those of some letters that pass.
    pub(crate) fn narrow(&self, letters: &Letters) -> Result<Letters> {
        self.narrow_by(letters, None)
    }

    /// All that was said is read as one filter, so that nothing can be said twice unnoticed.
    fn narrow_by(&self, letters: &Letters, first: Option<&str>) -> Result<Letters> {
        let mut flags = Letters::all();
        if let Some(kind) = &self.kind {
            flags = flags.kind(kind);
        }
        if let Some(reason) = self.reason {
            flags = flags.reason(reason);
        }
        if let Some(class) = &self.class {
            flags = flags.error_class(class);
        }
        let said = [letters.to_string(), flags.to_string()];
        let conditions = first
            .into_iter()
            .chain(self.conditions.iter().map(String::as_str));
        let all: Vec<&str> = said.iter().map(String::as_str).chain(conditions).collect();
        Ok(all.join(" ").parse()?)
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
        let flags = given.flat_map(|(name, value)| [name.to_owned(), quoted(value)]);
        let conditions = self.conditions.iter().map(|condition| quoted(condition));
        conditions.chain(flags).collect()
    }
}

/// Whether a word is a condition and not the name of a queue.
fn is_condition(word: &str) -> bool {
    word.contains(['=', '<', '>', '~'])
}

/// A word as a shell takes it, to be shown. What a terminal would obey is shown as an escape, and is
/// not to be typed: a name of the database may be made of it.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "_-./:@+,=".contains(character);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", clean(word).replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_mean_the_same_to_a_shell() {
        let filter = Filter {
            conditions: vec!["died>2h".to_owned(), "version=1.4".to_owned()],
            kind: Some("order.placed".to_owned()),
            reason: Some(Reason::WorkerLost),
            class: Some("it's exit 1".to_owned()),
        };
        assert_eq!(
            filter.words().join(" "),
            r"'died>2h' version=1.4 --kind order.placed --reason worker_lost --class 'it'\''s exit 1'"
        );
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("$(rm)"), "'$(rm)'");
        assert_eq!(quoted("a\u{202e}b"), r"'a\u{202e}b'");
    }

    #[test]
    fn the_first_word_is_a_queue_unless_it_has_an_operator() {
        let filter = Filter {
            conditions: vec!["died>2h".to_owned()],
            class: Some("Time out".to_owned()),
            ..Filter::default()
        };
        let said = |first| filter.letters(first).expect("a filter").to_string();
        assert_eq!(
            said(Some("orders")),
            r#"queue=orders class="Time out" died>2h"#
        );
        assert_eq!(said(Some("kind=a")), r#"kind=a class="Time out" died>2h"#);
        assert_eq!(said(None), r#"class="Time out" died>2h"#);
        assert!(filter.letters(Some("class=x")).is_err(), "said twice");
        let ids = Letters::ids([redrive::JobId::new(7)]);
        assert_eq!(
            filter.narrow(&ids).expect("a filter").to_string(),
            r#"class="Time out" id=7 died>2h"#
        );
    }
}
