//! `redrive job`: jobs that have not ended.

mod show;
mod table;
mod report;
mod list;
mod change;
mod edit;

use redrive::admin::JobFilter;

use crate::subcommands::subcommands;

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

subcommands! {
    /// List, show, cancel and change jobs that have not ended
    #[command(after_help = job_conditions_help())]
    pub(crate) enum JobCommand {
        List(list::ListJobs) = Reader,
        Show(show::ShowJob) = Reader,
        Cancel(change::Cancel) = Operator,
        Priority(change::Priority) = Operator,
        Set(change::SetPriority) = Operator,
        RunNow(change::RunNow) = Operator,
        Edit(edit::EditJobs) = Operator,
    }
}
