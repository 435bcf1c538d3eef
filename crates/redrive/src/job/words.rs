//! Enumerations whose values are words: in the database, in metrics and on the command line.

use std::str::FromStr;

use crate::error::{Error, Result};

/// A value that is stored as a word.
pub(crate) trait Word: Copy + FromStr<Err = Error> {
    fn word(self) -> &'static str;
}

/// Returns the value with this word. `noun` says what it is, for the error.
pub(crate) fn find<W: Copy>(noun: &str, all: &[W], words: &[&str], text: &str) -> Result<W> {
    let mut known = all.iter().zip(words);
    let found = known.find(|(_, word)| **word == text);
    found.map(|(value, _)| *value).ok_or_else(|| {
        Error::invalid(format!(
            "unknown {noun} `{}`; expected one of {}",
            text.escape_debug(),
            words.join(", ")
        ))
    })
}

/// Declares an enumeration with its noun and the word of each value, and perhaps what it displays instead of its word.
macro_rules! words {
    (@ $word:literal) => { $word };
    (@ $word:literal $said:literal) => { $said };
    ($(#[$about:meta])* $seen:vis enum $name:ident is $noun:literal {
        $($(#[$doc:meta])* $value:ident = $word:literal $(: $said:literal)?,)*
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        $seen enum $name {
            $($(#[$doc])* $value,)*
        }

        impl $name {
            /// All values.
            $seen const ALL: [$name; [$($word),*].len()] = [$($name::$value),*];

            /// The words of all values, in the same order.
            $seen const WORDS: [&str; $name::ALL.len()] = [$($word),*];

            /// Returns the name used in the database, in metrics and by the command line.
            $seen const fn as_str(self) -> &'static str {
                match self {
                    $($name::$value => $word,)*
                }
            }
        }

        impl $crate::job::words::Word for $name {
            fn word(self) -> &'static str {
                self.as_str()
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(match self {
                    $($name::$value => $crate::job::words::words!(@ $word $($said)?),)*
                })
            }
        }

        impl std::str::FromStr for $name {
            type Err = $crate::error::Error;

            fn from_str(text: &str) -> $crate::error::Result<$name> {
                $crate::job::words::find($noun, &$name::ALL, &$name::WORDS, text)
            }
        }
    };
}
pub(crate) use words;
