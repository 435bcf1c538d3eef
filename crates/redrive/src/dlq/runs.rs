//! Redrive runs: redrives that survive a crash, keep a rate and can be paused.
//!
//! [`Runs::create`] leaves a run to the workers; [`Runs::start`] returns a [`RunDriver`] that the
//! caller drives. A worker takes over a run that has no driver.

mod options;
mod state;
mod throttle;
mod driver;
mod run;
mod letters;

pub use driver::{DriveStatus, RunDriver};
pub(crate) use driver::{Steps, find_run};
pub use letters::{RunLetter, RunOutcome};
pub use options::RunOptions;
pub use run::{CreatedRun, RedriveRun, RunAction, RunChange};
pub use state::RunState;

pub use super::handle::Runs;
pub use super::id::RunId;
