//! `redrive dlq`: dead letters.

mod archive;
mod bulk;
mod capture;
mod chosen;
mod deliver;
mod discard;
mod drive;
mod edit;
mod export;
mod filter;
mod list;
mod policies;
mod redrive;
pub(crate) mod retention;
mod runs;
mod show;
mod validate;

use clap::{Args, Subcommand};

use crate::args::Arguments;
use crate::error::Result;
use crate::{Ending, Streams};

/// Look at dead letters, send them back, discard them, or record a failure from elsewhere.
#[derive(Args, Debug)]
pub(crate) struct Dlq {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    List(list::List),
    Show(show::Show),
    Redrive(redrive::Redrive),
    Discard(discard::Discard),
    Capture(capture::Capture),
    Runs(runs::Runs),
    Validate(validate::Validate),
    Edit(edit::Edit),
    Deliver(deliver::Deliver),
    Export(export::Export),
    Policies(policies::Policies),
    Retention(retention::Retention),
    Archive(archive::Archive),
}

impl Dlq {
    pub(crate) fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        match &self.act {
            Act::List(command) => command.run(arguments, io),
            Act::Show(command) => command.run(arguments, io),
            Act::Redrive(command) => command.run(arguments, io),
            Act::Discard(command) => command.run(arguments, io),
            Act::Capture(command) => command.run(arguments, io),
            Act::Runs(command) => command.run(arguments, io),
            Act::Validate(command) => command.run(arguments, io),
            Act::Edit(command) => command.run(arguments, io),
            Act::Deliver(command) => command.run(arguments, io),
            Act::Export(command) => command.run(arguments, io),
            Act::Policies(command) => command.run(arguments, io),
            Act::Retention(command) => command.run(arguments, io),
            Act::Archive(command) => command.run(arguments, io),
        }
    }
}
