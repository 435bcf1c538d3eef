//! What went wrong: a message for the person at the terminal, with its causes.

use std::error::Error as StdError;
use std::fmt;

/// The result of everything in this program that can fail.
pub(crate) type Result<T, E = Error> = std::result::Result<T, E>;

/// A failure, told by the operation and its subject; the causes follow on lines of their own.
#[derive(Debug)]
pub(crate) struct Error {
    message: String,
    cause: Option<Box<dyn StdError + Send + Sync>>,
    exit_code: u8,
}

impl Error {
    /// A failure of our own finding.
    pub(crate) fn new(message: impl Into<String>) -> Error {
        Error {
            message: message.into(),
            cause: None,
            exit_code: 1,
        }
    }

    /// Ctrl-C or SIGTERM: 130, as shells expect it.
    pub(crate) fn interrupted() -> Error {
        Error {
            exit_code: 130,
            ..Error::new("interrupted; nothing is left running")
        }
    }

    /// What the process exits with.
    pub(crate) fn exit_code(&self) -> u8 {
        self.exit_code
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        let mut cause: Option<&dyn StdError> =
            self.cause.as_deref().map(|cause| cause as &dyn StdError);
        while let Some(error) = cause {
            write!(f, "\n  caused by: {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

/// Says what was being done when somebody else's error came.
pub(crate) trait During<T> {
    /// Wraps the error in a message that names the operation and its subject.
    fn during<M: Into<String>>(self, operation: impl FnOnce() -> M) -> Result<T>;
}

impl<T, E: StdError + Send + Sync + 'static> During<T> for Result<T, E> {
    fn during<M: Into<String>>(self, operation: impl FnOnce() -> M) -> Result<T> {
        self.map_err(|cause| Error {
            cause: Some(Box::new(cause)),
            ..Error::new(operation())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_tells_its_operation_and_its_cause() {
        let error = "x"
            .parse::<u16>()
            .during(|| "cannot read the port `x`")
            .expect_err("no port");
        assert_eq!(
            error.to_string(),
            "cannot read the port `x`\n  caused by: invalid digit found in string"
        );
        assert_eq!(
            (error.exit_code(), Error::interrupted().exit_code()),
            (1, 130)
        );
    }
}
