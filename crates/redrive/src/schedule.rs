//! Schedules: jobs that are enqueued, and letters that are redriven, by a cron line or at an interval.
//!
//! Start at [`Database::schedules`](crate::Database::schedules). Schedules are rows of the database. Any
//! worker runs their ticks, and each tick runs once, however many workers there are.

mod cron;
mod zone;
mod rhythm;
mod missed;
mod overlap;
mod definition;
mod handle;
mod listed;
mod history;
pub(crate) mod tick;

pub use definition::Schedule;
pub use handle::{ScheduleChange, Schedules, Triggered};
pub use history::{ScheduleTick, TickOutcome};
pub use listed::{ScheduleStatus, ScheduledJob};
pub use missed::Missed;
pub use overlap::Overlap;
pub use rhythm::{MAX_INTERVAL, MIN_INTERVAL};
