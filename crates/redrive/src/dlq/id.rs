//! The ids of what belongs to dead letters: groups and their rules, runs, redactions.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

macro_rules! ids {
    ($($(#[$about:meta])* $name:ident = $noun:literal;)*) => {$(
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(i64);

        impl $name {
            /// Wraps a number from the database or from a command line.
            pub fn new(id: i64) -> $name {
                $name(id)
            }

            /// Returns the number.
            pub fn get(self) -> i64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }

        impl FromStr for $name {
            type Err = Error;

            fn from_str(text: &str) -> Result<$name> {
                match text.parse() {
                    Ok(id) if id > 0 => Ok($name(id)),
                    Ok(_) | Err(_) => Err(Error::invalid(format!(
                        concat!("`{}` is not the id of a ", $noun, "; ids are positive numbers"),
                        text.escape_debug()
                    ))),
                }
            }
        }
    )*};
}

crate::db::column::ids! { GroupId GroupRuleId RunId RedactionId }

ids! {
    /// The id of a failure group.
    GroupId = "failure group";
    /// The id of a rule that merges or splits a failure group.
    GroupRuleId = "group rule";
    /// The id of a redrive run.
    RunId = "redrive run";
    /// The id of a redaction.
    RedactionId = "redaction";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_a_positive_number() {
        assert_eq!("12".parse::<GroupId>().expect("an id"), GroupId::new(12));
        for text in ["0", "-1", "x", ""] {
            let error = text.parse::<RunId>().expect_err(text);
            assert!(error.is_invalid(), "{error}");
        }
    }
}
