//! Names of queues and kinds, checked before anything is sent.

use crate::error::{Error, Result};

/// The longest name of a queue, a schedule, a policy or a dependency, in characters.
pub const MAX_NAME_CHARS: usize = 100;

/// The longest kind, in characters.
pub const MAX_KIND_CHARS: usize = 255;

/// The names of the breakers of queues start with this, and those of dependencies do not.
pub(crate) const OF_QUEUES: &str = "queue:";

/// Checks a name of a queue or kind; `what` says which.
///
/// A name becomes a metric label, an argument and a line on a terminal: 1 to 100 characters, or
/// 255 for a kind, without control characters and without a space at either end.
pub(crate) fn check(what: &str, name: &str) -> Result<()> {
    let longest = match what {
        "kind" => MAX_KIND_CHARS,
        _ => MAX_NAME_CHARS,
    };
    let fault = if name.is_empty() {
        "is empty"
    } else if name.chars().count() > longest {
        &format!("is longer than {longest} characters")
    } else if name.chars().any(char::is_control) {
        "contains control characters"
    } else if name.starts_with(' ') || name.ends_with(' ') {
        "begins or ends with a space"
    } else {
        return Ok(());
    };
    // Cut and escaped, because the message goes to logs and terminals.
    let cut = name.chars().take(MAX_NAME_CHARS);
    let shown: String = cut.flat_map(char::escape_debug).collect();
    Err(Error::invalid(format!("the {what} name `{shown}` {fault}")))
}

pub(crate) fn check_given(what: &str, name: Option<&str>) -> Result<()> {
    name.map_or(Ok(()), |name| check(what, name))
}

/// Cleans a name that can no longer be rejected, because a handler gave it with a failure. Returns
/// `None` if nothing is left.
pub(crate) fn kept(name: &str) -> Option<Box<str>> {
    let kept: String = name.chars().filter(|c| !c.is_control()).collect();
    let kept: String = kept.trim().chars().take(MAX_NAME_CHARS).collect();
    let kept = kept.trim_end();
    (!kept.is_empty()).then(|| kept.into())
}

/// Cleans the name of a dependency that a handler gave with a failure. One that names the breaker of a queue is dropped:
/// the failure would stop another queue.
pub(crate) fn kept_dependency(name: &str) -> Option<Box<str>> {
    kept(name).filter(|kept| !kept.starts_with(OF_QUEUES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_name_is_rejected_with_its_fault() {
        for good in [
            "q",
            "orders.eu",
            "com/acme: order placed",
            "größe",
            &"x".repeat(100),
        ] {
            assert!(check("queue", good).is_ok(), "{good}");
        }
        let long = "x".repeat(255);
        assert!(check("kind", &long).is_ok());
        let error = check("queue", &long[..101]).expect_err("a queue");
        assert!(error.to_string().contains("longer than 100"), "{error}");
        for (bad, why) in [
            ("", "is empty"),
            (&*"x".repeat(256), "longer than 255"),
            ("a\0b", "control"),
            ("a\u{1b}[2J", "control"),
            (" a", "space"),
            ("a ", "space"),
        ] {
            let error = check("kind", bad).expect_err(bad);
            error.assert_invalid(why);
            let shown = error.to_string();
            assert!(!shown.contains(char::is_control), "{shown:?}");
        }
    }
}
