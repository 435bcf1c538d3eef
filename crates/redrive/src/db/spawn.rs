//! Starts threads.

use crate::error::{Error, Result};
use crate::sync::thread::Builder;

/// Starts a thread.
pub(crate) fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    match Builder::new().name(name.to_owned()).spawn(work) {
        Ok(_) => Ok(()),
        Err(error) => Err(refused(&format!("start the thread `{name}`")).caused_by(error)),
    }
}

/// The host lets this process start nothing.
pub(crate) fn refused(doing: &str) -> Error {
    Error::unavailable(format!(
        "could not {doing}: the host refuses threads or descriptors to this process"
    ))
}
