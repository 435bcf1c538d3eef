//! `redrive schedule`: jobs that are enqueued by a cron line or at an interval.

mod zoned;
mod list;
mod show;
mod set;
mod change;
mod history;

use clap::{Args, Subcommand};

use crate::context::{Context, Ending};
use crate::error::Result;
use crate::profession::Profession;

/// Enqueue jobs by a cron line or at an interval
///
/// Schedules live in the database. The workers run their ticks, each exactly once; no other process
/// is needed.
#[derive(Args, Debug)]
pub(crate) struct ScheduleCommand {
    #[command(subcommand)]
    subcommand: ScheduleSubcommand,
}

#[derive(Debug, Subcommand)]
enum ScheduleSubcommand {
    List(list::ListSchedules),
    Show(show::ShowSchedule),
    Set(Box<set::SetSchedule>),
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
    Pause(change::ChangeSchedule),
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
    Resume(change::ChangeSchedule),
    /// Enqueue the job of a schedule now, paused or not
    #[command(
        before_help = "\
Example:
  redrive schedule trigger nightly-report --reason 'the file was late'
",
        after_help = "\
Prints the id of the job. The next tick stays the same. The exit code is 1 if the
schedule does not exist, or if its overlap is `skip` and an earlier job is live."
    )]
    Trigger(change::ChangeSchedule),
    /// Remove a schedule and its history; its jobs are not affected
    #[command(
        before_help = "\
Example:
  redrive schedule remove nightly-report --reason 'replaced'
",
        after_help = "The exit code is 1 if the schedule does not exist."
    )]
    Remove(change::ChangeSchedule),
    History(history::ShowHistory),
}

impl ScheduleCommand {
    /// The role that the command needs.
    pub(crate) fn profession(&self) -> Profession {
        match &self.subcommand {
            ScheduleSubcommand::List(_)
            | ScheduleSubcommand::Show(_)
            | ScheduleSubcommand::History(_) => Profession::Reader,
            ScheduleSubcommand::Set(set) => set.profession(),
            ScheduleSubcommand::Pause(_)
            | ScheduleSubcommand::Resume(_)
            | ScheduleSubcommand::Trigger(_)
            | ScheduleSubcommand::Remove(_) => Profession::Operator,
        }
    }

    pub(crate) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        match &self.subcommand {
            ScheduleSubcommand::List(command) => command.run(cx),
            ScheduleSubcommand::Show(command) => command.run(cx),
            ScheduleSubcommand::Set(command) => command.run(cx),
            ScheduleSubcommand::Pause(command) => command.pause(cx),
            ScheduleSubcommand::Resume(command) => command.resume(cx),
            ScheduleSubcommand::Trigger(command) => command.trigger(cx),
            ScheduleSubcommand::Remove(command) => command.remove(cx),
            ScheduleSubcommand::History(command) => command.run(cx),
        }
    }
}
