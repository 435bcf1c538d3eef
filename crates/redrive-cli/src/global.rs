//! The options that every command accepts.

use std::time::Duration;

use clap::{ArgAction, Args};
use redrive::Pooler;

use crate::time;

/// The options that every command accepts.
#[derive(Args, Debug)]
#[command(next_help_heading = "Global options")]
pub(crate) struct GlobalArgs {
    /// PostgreSQL database, such as `postgres://me@host/shop`.
    #[arg(
        long,
        global = true,
        value_name = "URL",
        env = "DATABASE_URL",
        hide_env_values = true
    )]
    pub(crate) database_url: Option<String>,

    /// `transaction` behind a transaction-mode pooler such as PgBouncer, `session` if each connection
    /// belongs to one client [default: detect].
    #[arg(long, global = true, value_name = "MODE", env = "REDRIVE_POOLER")]
    pub(crate) pooler: Option<Pooler>,

    /// Time limit for the database to answer. Bulk operations get four times as long [default: 15s].
    #[arg(long, global = true, value_name = "TIME", value_parser = time::parse)]
    pub(crate) timeout: Option<Duration>,

    /// Fail at once if the database cannot be reached, and do not wait for the outcomes of a redrive. By
    /// default commands wait one minute for the database, and `work` forever.
    #[arg(long, global = true)]
    pub(crate) no_wait: bool,

    /// Print one JSON object per line.
    #[arg(long, global = true)]
    pub(crate) json: bool,

    /// Log more: -v for progress, -vv for details.
    #[arg(short, long, global = true, action = ArgAction::Count)]
    pub(crate) verbose: u8,
}
