//! Errors of the command line.

use std::error::Error as StdError;
use std::io;

use redrive::postgres::error::DbError;

use crate::name::Me;

/// The result of a fallible operation in this crate.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// The reason a command failed.
#[derive(Debug)]
pub(crate) enum Error {
    /// The reader of the output closed the pipe. The command exits with 0.
    BrokenPipe,
    /// A signal stopped a command that had changed nothing. The command exits with 1.
    Stopped,
    /// A message that names the operation, its subject and its cause, in one line.
    Failed(String),
}

impl Error {
    /// An error without a source.
    pub(crate) fn new(message: impl Into<String>) -> Error {
        Error::Failed(message.into())
    }

    /// An error with a source.
    pub(crate) fn caused_by(
        message: impl Into<String>,
        source: impl Into<Box<dyn StdError + Send + Sync>>,
    ) -> Error {
        let source: Box<dyn StdError + Send + Sync> = source.into();
        Error::Failed(chain(message.into(), Some(&*source)))
    }

    /// The message and its sources in one line.
    pub(crate) fn one_line(&self) -> String {
        match self {
            Error::BrokenPipe => "the reader closed the output".to_owned(),
            Error::Stopped => "stopped by a signal; nothing was changed".to_owned(),
            Error::Failed(message) => message.clone(),
        }
    }
}

/// Joins a message and its sources by `: `, without repetitions.
fn chain(message: String, mut source: Option<&(dyn StdError + 'static)>) -> String {
    let mut line = message;
    while let Some(error) = source {
        // The details of a server error may contain row data, so only its message is shown.
        let text = match error.downcast_ref::<DbError>() {
            Some(server) => match server.message().strip_prefix("redrive: ") {
                Some(own) => own.to_owned(),
                None => format!("{}: {}", server.severity(), server.message()),
            },
            None => error.to_string(),
        };
        // The driver puts "db error" in front of every server error.
        if text != "db error" && !line.ends_with(&text) {
            line.push_str(": ");
            line.push_str(&text);
        }
        source = error.source();
    }
    line
}

impl From<redrive::Error> for Error {
    fn from(error: redrive::Error) -> Error {
        // The server's message about a missing relation adds nothing to "run `redrive migrate`".
        if error.is_migration_required() {
            let here = format!("`{Me} migrate`");
            return Error::new(error.to_string().replace("`redrive migrate`", &here));
        }
        Error::Failed(chain(error.to_string(), error.source()))
    }
}

/// An error while writing the output. All other I/O errors name their file.
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
    fn sources_are_joined_without_repetition() {
        let source = || io::Error::other("disk on fire");
        let joined = Error::caused_by("could not read `f`", source()).one_line();
        assert_eq!(joined, "could not read `f`: disk on fire");
        assert_eq!(Error::caused_by(&*joined, source()).one_line(), joined);
    }

    #[test]
    fn a_broken_pipe_is_recognized() {
        let broken = Error::from(io::Error::from(io::ErrorKind::BrokenPipe));
        assert!(matches!(broken, Error::BrokenPipe));
        let other = Error::from(io::Error::other("x"));
        assert!(matches!(other, Error::Failed(..)));
    }
}
