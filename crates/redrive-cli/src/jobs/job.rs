//! `redrive job`: jobs that have not ended.

mod show;
mod table;
mod selection;
mod list;
mod change;
mod edit;

use clap::{Args, Subcommand};
use redrive::JobId;
use redrive::admin::JobFilter;

use crate::context::{Context, Ending};
use crate::error::Result;
use crate::profession::Profession;

pub(crate) use selection::JOB_CONDITIONS;

/// The conditions, for the help of every command that takes them.
pub(crate) fn job_conditions_help() -> String {
    format!(
        "\
Conditions on jobs (a job must meet all of them):
{}

The age counts from the enqueue. Numbers and values of the payload also take !=
< <= > and >=, and texts in the payload take ~ for a part. Separate several
values with commas. Pass each condition as one argument, in single quotes if it
contains spaces or <, > or \".",
        JobFilter::help()
    )
}

/// List, show, cancel and change jobs that have not ended
#[derive(Args, Debug)]
#[command(after_help = job_conditions_help())]
pub(crate) struct JobCommand {
    #[command(subcommand)]
    subcommand: JobSubcommand,
}

#[derive(Debug, Subcommand)]
enum JobSubcommand {
    List(list::ListJobs),
    /// Show the state, payload and failed attempts of a job
    #[command(before_help = "Example:\n  redrive job show 42\n")]
    Show {
        /// The id of the job.
        id: JobId,
    },
    Cancel(change::Cancel),
    Priority(change::Priority),
    /// Change the priority of one waiting job; see `priority`
    #[command(before_help = "Example:\n  redrive job set 42 --priority 100\n")]
    Set {
        /// The id of the job.
        id: JobId,
        /// New priority, from -1000 to 1000. Jobs with a higher priority run first.
        #[arg(long, allow_negative_numbers = true, value_parser = clap::value_parser!(i16).range(-1000..=1000))]
        priority: i16,
    },
    RunNow(change::RunNow),
    Edit(edit::EditJobs),
}

impl JobCommand {
    /// The role that the command needs.
    pub(crate) fn profession(&self) -> Profession {
        match &self.subcommand {
            JobSubcommand::List(_) | JobSubcommand::Show { .. } => Profession::Reader,
            JobSubcommand::Cancel(_)
            | JobSubcommand::Priority(_)
            | JobSubcommand::Set { .. }
            | JobSubcommand::RunNow(_)
            | JobSubcommand::Edit(_) => Profession::Operator,
        }
    }

    pub(crate) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        match &self.subcommand {
            JobSubcommand::List(command) => command.run(cx),
            JobSubcommand::Show { id } => {
                let db = cx.database()?;
                show::show(&db, *id, cx)
            }
            JobSubcommand::Cancel(command) => command.run(cx),
            JobSubcommand::Priority(command) => command.run(cx),
            JobSubcommand::Set { id, priority } => change::set_priority(*id, *priority, cx),
            JobSubcommand::RunNow(command) => command.run(cx),
            JobSubcommand::Edit(command) => command.run(cx),
        }
    }
}
