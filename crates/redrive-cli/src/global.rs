//! The options that every command accepts.

use std::time::Duration;

use clap::{ArgAction, Args};
use redrive::Pooler;

use crate::time;

/// The text of `redrive help connection`. The options themselves are hidden from other help.
pub(crate) const CONNECTION_HELP: &str = "\
Every command accepts these options:

  --database-url <URL>  PostgreSQL database, such as postgres://me@host/shop
                        [env: DATABASE_URL]
  --pooler <MODE>       `transaction` behind a transaction-mode pooler such as
                        PgBouncer, `session` if each connection belongs to
                        one client [env: REDRIVE_POOLER] [default: detect]
  --timeout <TIME>      Time limit for the database to answer. Bulk
                        operations get four times as long [default: 15s]
  --no-wait             Fail at once if the database cannot be reached. By
                        default commands wait one minute and `work` waits
                        forever. `dlq redrive` then does not wait for the
                        outcomes either

The database URL is never printed. The audit knows the operator as USER@HOST,
from $USER, $LOGNAME or /etc/passwd.";

/// The options that every command accepts.
#[derive(Args, Debug)]
pub(crate) struct GlobalArgs {
    /// PostgreSQL database.
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "DATABASE_URL",
        hide_env_values = true,
        hide = true
    )]
    pub(crate) database_url: Option<String>,

    /// Mode of the connection pooler in front of the database.
    #[arg(
        long,
        global = true,
        value_name = "MODE",
        env = "REDRIVE_POOLER",
        hide = true
    )]
    pub(crate) pooler: Option<Pooler>,

    /// Time limit for the database to answer.
    #[arg(
        long,
        global = true,
        value_name = "TIME",
        value_parser = time::parse,
        hide = true
    )]
    pub(crate) timeout: Option<Duration>,

    /// Fail at once if the database cannot be reached.
    #[arg(long, global = true, hide = true)]
    pub(crate) no_wait: bool,

    /// Print one JSON object per line.
    #[arg(long, global = true, help_heading = "Global options")]
    pub(crate) json: bool,

    /// Log more: -v for progress, -vv for details.
    #[arg(short, long, global = true, action = ArgAction::Count, help_heading = "Global options")]
    pub(crate) verbose: u8,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_connection_help_names_every_hidden_option() {
        let command = GlobalArgs::augment_args(clap::Command::new("redrive"));
        for argument in command.get_arguments().filter(|a| a.is_hide_set()) {
            let flag = format!("--{}", argument.get_long().expect("a long flag"));
            assert!(CONNECTION_HELP.contains(&flag), "{flag}");
            if let Some(variable) = argument.get_env() {
                let variable = variable.to_string_lossy().into_owned();
                assert!(CONNECTION_HELP.contains(&variable), "{variable}");
            }
        }
    }
}
