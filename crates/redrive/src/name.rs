//! Names of queues and kinds: what the schema accepts, checked before anything is sent.

use crate::error::{Error, Result};

/// The longest name, in characters.
pub const NAME_CHARACTERS: usize = 100;

/// Checks a queue or kind name; `what` says which, for the message.
///
/// A name becomes a metric label, an argument and a line on a terminal: 1 to 100 characters,
/// no control characters, no blank at either edge.
pub(crate) fn check(what: &str, name: &str) -> Result<()> {
    let trouble = if name.is_empty() {
        "is empty"
    } else if name.chars().count() > NAME_CHARACTERS {
        "is over 100 characters"
    } else if name.chars().any(char::is_control) {
        "has control characters"
    } else if name.starts_with(' ') || name.ends_with(' ') {
        "has a blank at an edge"
    } else {
        return Ok(());
    };
    // At most a name's worth of it, escaped: the message goes to logs and terminals.
    let shown: String = name
        .chars()
        .take(NAME_CHARACTERS)
        .collect::<String>()
        .escape_debug()
        .collect();
    Err(Error::invalid(format!(
        "the {what} name `{shown}` {trouble}"
    )))
}

/// What is left of a name that comes too late to be refused: from a handler, about an outage.
pub(crate) fn cleaned(name: &str) -> String {
    let kept: String = name.chars().filter(|c| !c.is_control()).collect();
    let kept: String = kept.trim().chars().take(NAME_CHARACTERS).collect();
    kept.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn good_names_pass_and_bad_ones_say_why() {
        for good in [
            "q",
            "orders.eu",
            "com/acme: order placed",
            "größe",
            &"x".repeat(100),
        ] {
            assert!(check("queue", good).is_ok(), "{good}");
        }
        for (bad, why) in [
            ("", "is empty"),
            (&*"x".repeat(101), "over 100"),
            ("a\0b", "control"),
            ("a\u{1b}[2J", "control"),
            (" a", "blank"),
            ("a ", "blank"),
        ] {
            let error = check("kind", bad).expect_err(bad);
            assert!(
                error.is_invalid() && error.to_string().contains(why),
                "{error}"
            );
        }
    }
}
