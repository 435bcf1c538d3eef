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
mod groups;
mod list;
mod oncall;
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
///
/// Without a verb it shows what somebody on call asks first: how deep the queues are, what fails
/// most, the oldest letter, what is going on, and what to type next.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  redrive dlq
  redrive dlq list orders class=Timeout 'died>2h'

The verbs on letters take conditions, all of which hold:
  queue= kind= class= group= reason= state= id= generation= died> died<
  message~ version= host= source= run= payload.PATH=
Several values are parted by commas; a value with blanks goes in double quotes:
  class=Timeout,Refused  id=5..10  'died>2h'  'died<2026-11-20T10:00Z'
  payload.customer.id=42  'payload.amount>100'  'message~\"card declined\"'")]
pub(crate) struct Dlq {
    #[command(subcommand)]
    act: Option<Act>,
}

#[derive(Debug, Subcommand)]
enum Act {
    List(list::List),
    Groups(groups::GroupsCommand),
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
            None => oncall::run(arguments, io),
            Some(Act::List(command)) => command.run(arguments, io),
            Some(Act::Groups(command)) => command.run(arguments, io),
            Some(Act::Show(command)) => command.run(arguments, io),
            Some(Act::Redrive(command)) => command.run(arguments, io),
            Some(Act::Discard(command)) => command.run(arguments, io),
            Some(Act::Capture(command)) => command.run(arguments, io),
            Some(Act::Runs(command)) => command.run(arguments, io),
            Some(Act::Validate(command)) => command.run(arguments, io),
            Some(Act::Edit(command)) => command.run(arguments, io),
            Some(Act::Deliver(command)) => command.run(arguments, io),
            Some(Act::Export(command)) => command.run(arguments, io),
            Some(Act::Policies(command)) => command.run(arguments, io),
            Some(Act::Retention(command)) => command.run(arguments, io),
            Some(Act::Archive(command)) => command.run(arguments, io),
        }
    }
}
