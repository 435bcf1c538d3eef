//! The hours of the day at which a policy ticks.

use std::fmt;
use std::str::FromStr;

use crate::error::{Error, Result};

/// The hours of the day, in UTC, at which a policy ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UtcHours {
    from: u8,
    to: u8,
}

impl UtcHours {
    /// Returns the hours from `from` up to but excluding `to`, each 0 to 23. The range spans midnight
    /// if `to` is smaller.
    ///
    /// # Errors
    /// *Invalid* if an hour is over 23, or if both are equal.
    pub fn between(from: u8, to: u8) -> Result<UtcHours> {
        if from > 23 || to > 23 || from == to {
            return Err(Error::invalid(format!(
                "invalid hours {from}-{to}; expected two different hours from 0 to 23"
            )));
        }
        Ok(UtcHours { from, to })
    }

    /// Returns the first hour.
    pub fn from(self) -> u8 {
        self.from
    }

    /// Returns the hour at which the range ends.
    pub fn to(self) -> u8 {
        self.to
    }
}

impl fmt::Display for UtcHours {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}-{}", self.from, self.to))
    }
}

impl FromStr for UtcHours {
    type Err = Error;

    fn from_str(text: &str) -> Result<UtcHours> {
        let read = |text: &str| text.trim().parse::<u8>().ok();
        match text
            .split_once('-')
            .map(|(from, to)| (read(from), read(to)))
        {
            Some((Some(from), Some(to))) => UtcHours::between(from, to),
            Some(_) | None => Err(Error::invalid(format!(
                "invalid hours `{}`; expected a range such as 22-6",
                text.escape_debug()
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hours_are_read_as_they_are_shown() {
        for text in ["22-6", "0-23", "9-17"] {
            assert_eq!(text.parse::<UtcHours>().expect(text).to_string(), text);
        }
        for text in ["", "9", "9-9", "24-3", "-", "a-b", "1-2-3"] {
            assert!(text.parse::<UtcHours>().expect_err(text).is_invalid());
        }
    }
}
