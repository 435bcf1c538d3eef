//! `redrive schedule`: jobs that are enqueued, and letters that are redriven, by a cron line or at an interval.

mod list;
mod show;
mod set;
mod redrive;
mod change;
mod history;

use crate::subcommands::{Plain, subcommands};

subcommands! {
    /// Enqueue jobs or redrive letters by a cron line or at an interval
    ///
    /// Schedules live in the database. The workers run their ticks, each exactly once; no other process
    /// is needed.
    pub(crate) enum ScheduleCommand {
        /// List schedules with their last and next tick
        #[command(
            before_help = "\
Examples:
  redrive schedule list
  redrive schedule list --json | jq -r 'select(.last_error) | .id'
",
            after_help = "The exit code is 1 if there are no schedules."
        )]
        List(Plain).run(list::list),
        Show(show::ShowSchedule),
        Set(Box<set::SetSchedule>),
        Redrive(Box<redrive::SetPolicy>),
        /// Pause a schedule; it keeps its next tick
        #[command(
            before_help = "\
Example:
  redrive schedule pause nightly-report --reason 'stocktaking'
",
            after_help = "\
After `schedule resume`, the ticks of the pause count as missed. The exit code is 1 if
the schedule does not exist."
        )]
        Pause(change::ChangeSchedule).run(|of, name, by| of.pause(name, by), "paused", ("paused", true)),
        /// Resume a paused schedule
        #[command(
            before_help = "\
Example:
  redrive schedule resume nightly-report
",
            after_help = "\
The ticks of the pause follow the policy for missed ticks. The exit code is 1 if the
schedule does not exist."
        )]
        Resume(change::ChangeSchedule).run(|of, name, by| of.resume(name, by), "resumed", ("paused", false)),
        /// Enqueue the job of a schedule, or redrive the letters of its policy, now, paused or not
        #[command(
            before_help = "\
Example:
  redrive schedule trigger nightly-report --reason 'the file was late'
",
            after_help = "\
Prints the id of the job, or the number of letters. The next tick stays the same. The exit code is 1 if the
schedule does not exist, or if its overlap is `skip` and an earlier job is live."
        )]
        Trigger(change::ChangeSchedule).trigger(),
        /// Remove a schedule and its history; its jobs and letters are not affected
        #[command(
            before_help = "\
Example:
  redrive schedule remove nightly-report --reason 'replaced'
",
            after_help = "The exit code is 1 if the schedule does not exist."
        )]
        Remove(change::ChangeSchedule).run(|of, name, by| of.remove(name, by), "removed", ("removed", true)),
        History(history::ShowHistory),
    }
}
