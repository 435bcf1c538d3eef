//! `redrive job`: jobs that have not ended.

mod show;
mod list;
mod change;
mod edit;

use redrive::admin::{JobChange, JobFilter};

use crate::prelude::*;

/// The conditions, for the help of every command that takes them.
pub(crate) fn job_conditions_help() -> String {
    format!(
        "\
Conditions on jobs (a job must meet all of them):
{}

The age counts from the enqueue. Numbers and values of the payload also take !=
< <= > and >=, and texts in the payload take ~ for a part. Several states and
ids are separated by commas. Pass each condition as one argument, in single
quotes if it contains spaces or <, > or \".",
        JobFilter::help()
    )
}

subcommands! {
    /// List, show, cancel and change jobs that have not ended
    #[command(after_help = job_conditions_help())]
    pub(crate) enum JobCommand {
        List(list::ListJobs),
        Show(show::ShowJob),
        /// Cancel jobs
        ///
        /// Waiting jobs become dead letters, with the cause `manual`. Without --yes this is a dry run; jobs
        /// given by id are cancelled at once. Running jobs are left out unless they are given by id: then
        /// the handler is asked to stop, and if it succeeds first, the job is done.
        #[command(
            before_help = "\
Examples:
  redrive job cancel 42
  redrive job cancel orders kind=order.test --reason 'test orders' --yes
",
            after_help = change::AFTER_HELP
        )]
        Cancel(change::ChangeJobs).run(JobChange::Cancel),
        Priority(change::Priority),
        /// Make delayed jobs ready now
        ///
        /// Without --yes this is a dry run; jobs given by id become ready at once. Scheduled, snoozed and
        /// retried jobs are delayed. Ready and running jobs are left out.
        #[command(
            before_help = "\
Examples:
  redrive job run-now 42
  redrive job run-now orders 'attempts>=1' --yes
",
            after_help = change::AFTER_HELP
        )]
        RunNow(change::ChangeJobs).run(JobChange::RunNow),
        Edit(edit::EditJobs),
    }
}
