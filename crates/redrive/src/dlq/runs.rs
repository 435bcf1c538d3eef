//! Redrive runs: redrives that survive a crash, keep a rate and can be paused. Start at [`Runs::create`].

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
