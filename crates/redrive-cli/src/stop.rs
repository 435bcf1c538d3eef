//! Notices SIGTERM and Ctrl-C, so that a command stops between two batches.

use std::ops::ControlFlow;

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::error::{Error, Result};

/// The signals that ask a command to stop.
pub(crate) struct StopSignal(Signals);

impl StopSignal {
    /// Starts to listen. The signals no longer end the process.
    pub(crate) fn listen() -> Result<StopSignal> {
        let signals = Signals::new([SIGTERM, SIGINT])
            .map_err(|error| Error::caused_by("could not listen for signals", error))?;
        Ok(StopSignal(signals))
    }

    /// Breaks if a signal has arrived.
    pub(crate) fn check(&mut self) -> ControlFlow<()> {
        match self.0.pending().next() {
            Some(_) => ControlFlow::Break(()),
            None => ControlFlow::Continue(()),
        }
    }
}
