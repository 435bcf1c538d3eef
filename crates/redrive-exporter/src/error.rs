//! The errors that end the program or are logged.

use std::error::Error as StdError;
use std::fmt;

/// The result of a fallible operation.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// A message that names the operation and its subject, and optionally the cause.
#[derive(Debug)]
pub(crate) struct Error {
    message: String,
    cause: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// Creates an error without a cause.
    pub(crate) fn new(message: impl Into<String>) -> Error {
        Error {
            message: message.into(),
            cause: None,
        }
    }

    /// Creates an error with its cause.
    pub(crate) fn caused_by(
        message: impl Into<String>,
        cause: impl StdError + Send + Sync + 'static,
    ) -> Error {
        Error {
            message: message.into(),
            cause: Some(Box::new(cause)),
        }
    }
}

/// Formats the message and its causes in one line, joined by `: `, without repetitions.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = self.message.clone();
        let mut cause = self.cause.as_deref().map(|cause| cause as &dyn StdError);
        while let Some(error) = cause {
            let next = error.to_string();
            // The driver says "db error" where the server's message follows as the source.
            if next != "db error" && !text.ends_with(&next) {
                text.push_str(": ");
                text.push_str(&next);
            }
            cause = error.source();
        }
        f.write_str(&text)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn an_error_names_its_causes_once() {
        let cause = io::Error::other("disk on fire");
        assert_eq!(
            Error::caused_by("could not read `f`", cause).to_string(),
            "could not read `f`: disk on fire"
        );
        assert_eq!(Error::new("no").to_string(), "no");
    }
}
