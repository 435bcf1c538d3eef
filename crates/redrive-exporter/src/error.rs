//! What went wrong, for whoever runs the exporter.

use std::error::Error as StdError;

/// The result of everything here that can fail.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// A message that names the operation and its subject, and the cause.
#[derive(Debug)]
pub(crate) struct Error {
    message: String,
    cause: Option<Box<dyn StdError + Send + Sync>>,
}

impl Error {
    /// A failure of our own finding.
    pub(crate) fn new(message: impl Into<String>) -> Error {
        Error {
            message: message.into(),
            cause: None,
        }
    }

    /// A failure with somebody else's error as its cause.
    pub(crate) fn caused_by(
        message: impl Into<String>,
        cause: impl StdError + Send + Sync + 'static,
    ) -> Error {
        Error {
            message: message.into(),
            cause: Some(Box::new(cause)),
        }
    }

    /// The message and its causes in one line, joined by `: `; what says nothing new is left out.
    pub(crate) fn told(&self) -> String {
        let mut told = self.message.clone();
        let mut cause = self.cause.as_deref().map(|cause| cause as &dyn StdError);
        while let Some(error) = cause {
            let said = error.to_string();
            // "db error" is the driver's word for "the server's own words follow".
            if said != "db error" && !told.ends_with(&said) {
                told.push_str(": ");
                told.push_str(&said);
            }
            cause = error.source();
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn causes_are_joined_and_said_once() {
        let cause = io::Error::other("disk on fire");
        assert_eq!(
            Error::caused_by("could not read `f`", cause).told(),
            "could not read `f`: disk on fire"
        );
        assert_eq!(Error::new("no").told(), "no");
    }
}
