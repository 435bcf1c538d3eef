//! The command line: what is common to all commands, and which there are.

use std::time::Duration;

use clap::{ArgAction, Parser, Subcommand};
use redrive::Pooler;

use crate::command::audit::Audit;
use crate::command::breaker::Breaker;
use crate::command::dlq::Dlq;
use crate::command::enqueue::Enqueue;
use crate::command::job::Job;
use crate::command::migrate::Migrate;
use crate::command::prune::Prune;
use crate::command::redact::Redact;
use crate::command::stats::Stats;
use crate::command::work::Work;
use crate::duration;

/// What every help ends with.
const EXIT_CODES: &str = "\
Exit codes:
  0  done; also when the reader of the output had enough (a broken pipe)
  1  nothing matched, a check failed, or some of what was named could not be
     done
  2  an error: a wrong argument, the database, a bad file

Text of the database is shown with control characters escaped; --json prints
it as it is. Log lines go to stderr; RUST_LOG sets them in detail, for example
RUST_LOG=redrive=debug.";

/// A job queue with a dead letter queue done right, in the PostgreSQL you already run.
///
/// Jobs that fail for good become dead letters, with their payload, error and history. Look at
/// them with `dlq list` and `dlq show`, fix the cause, and send them back with `dlq redrive`.
#[derive(Debug, Parser)]
#[command(name = "redrive", version, after_help = EXIT_CODES, max_term_width = 90)]
pub(crate) struct Arguments {
    /// The PostgreSQL database, such as `postgres://me@host/shop`.
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "DATABASE_URL",
        hide_env_values = true
    )]
    pub(crate) database_url: Option<String>,

    /// What is between here and the database: `transaction` for a pooler in transaction mode, such
    /// as PgBouncer; `session` for one in session mode, or none.
    #[arg(
        long,
        global = true,
        value_name = "MODE",
        env = "REDRIVE_POOLER",
        default_value_t
    )]
    pub(crate) pooler: Pooler,

    /// Print one JSON object a line instead of text for people.
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Fail at once when the database cannot be reached; by default, commands wait a minute for
    /// it, and `work` waits for ever.
    #[arg(long, global = true)]
    pub(crate) no_wait: bool,

    /// How long an answer of the database may take, and four times as long where it is about many
    /// letters [default: 15s].
    #[arg(long, global = true, value_name = "TIME", value_parser = duration::parse)]
    pub(crate) answer_within: Option<Duration>,

    /// Log more: -v says what the worker does, -vv says it in detail.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,

    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Migrate(Migrate),
    Enqueue(Enqueue),
    Work(Work),
    Stats(Stats),
    Job(Job),
    Dlq(Dlq),
    Breaker(Breaker),
    Prune(Prune),
    Redact(Redact),
    Audit(Audit),
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_command_has_an_example() {
        fn look(command: &clap::Command) {
            if command.has_subcommands() {
                command.get_subcommands().for_each(look);
            } else {
                let after = command
                    .get_after_help()
                    .map(ToString::to_string)
                    .unwrap_or_default();
                assert!(
                    after.contains("Example"),
                    "`{}` has no example",
                    command.get_name()
                );
                assert!(
                    command.get_about().is_some(),
                    "`{}` says nothing",
                    command.get_name()
                );
            }
        }
        look(&Arguments::command());
    }
}
