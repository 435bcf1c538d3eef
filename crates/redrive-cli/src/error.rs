//! What went wrong, for the person at the terminal.

use std::error::Error as StdError;
use std::io;

use redrive::postgres::error::DbError;

/// The result of everything in this program that can fail.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a command could not do what was asked.
#[derive(Debug)]
pub(crate) enum Error {
    /// The reader of our output had enough. Not an error for anybody.
    BrokenPipe,
    /// A message that names the operation and its subject, and the cause.
    Failed(String, Option<Box<dyn StdError + Send + Sync>>),
}

impl Error {
    /// A failure of our own finding.
    pub(crate) fn new(message: impl Into<String>) -> Error {
        Error::Failed(message.into(), None)
    }

    /// A failure with somebody else's error as its cause.
    pub(crate) fn caused_by(
        message: impl Into<String>,
        cause: impl StdError + Send + Sync + 'static,
    ) -> Error {
        Error::Failed(message.into(), Some(Box::new(cause)))
    }

    /// The message and its causes in one line, joined by `: `.
    pub(crate) fn told(&self) -> String {
        match self {
            Error::BrokenPipe => "the reader of the output is gone".to_owned(),
            Error::Failed(message, cause) => chain(
                message.clone(),
                cause
                    .as_deref()
                    .map(|cause| cause as &(dyn StdError + 'static)),
            ),
        }
    }
}

/// Joins a message and the causes below it; what says nothing new is left out.
pub(crate) fn chain(message: String, mut cause: Option<&(dyn StdError + 'static)>) -> String {
    let mut told = message;
    while let Some(error) = cause {
        // The server's details may repeat what is in a row.
        let said = match error.downcast_ref::<DbError>() {
            Some(server) => format!("{}: {}", server.severity(), server.message()),
            None => error.to_string(),
        };
        // "db error" is the driver's word for "the server's own words follow".
        if said != "db error" && !told.ends_with(&said) {
            told.push_str(": ");
            told.push_str(&said);
        }
        cause = error.source();
    }
    told
}

impl From<redrive::Error> for Error {
    fn from(error: redrive::Error) -> Error {
        // The message says it all; the server's words about a missing relation only confuse.
        if error.is_migration_required() {
            return Error::new(error.to_string());
        }
        Error::Failed(chain(error.to_string(), error.source()), None)
    }
}

/// Output that cannot be written. Everything else that is read or written says what it is.
impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Error::BrokenPipe;
        }
        Error::caused_by("could not write the output", error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_joined_and_said_once() {
        let cause = io::Error::other("disk on fire");
        assert_eq!(
            Error::caused_by("could not read `f`", cause).told(),
            "could not read `f`: disk on fire"
        );
        let again = io::Error::other("on fire");
        assert_eq!(
            chain("the disk is on fire".to_owned(), Some(&again)),
            "the disk is on fire"
        );
    }

    #[test]
    fn a_broken_pipe_is_told_apart() {
        assert!(matches!(
            Error::from(io::Error::from(io::ErrorKind::BrokenPipe)),
            Error::BrokenPipe
        ));
        assert!(matches!(
            Error::from(io::Error::other("x")),
            Error::Failed(..)
        ));
    }
}
