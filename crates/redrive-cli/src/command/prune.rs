//! `redrive prune`: closed letters that are old enough.

use std::time::Duration;

use clap::Args;
use serde_json::json;

use crate::args::Arguments;
use crate::connect::{self, Patience};
use crate::duration;
use crate::error::Result;
use crate::progress::Progress;
use crate::render::{counted, json_line};
use crate::{Ending, Streams};

/// Delete letters that were recovered or discarded long ago.
///
/// Open letters are never deleted. Nothing to delete is no failure: the exit code is 0, so that a
/// timer can run it.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  redrive prune --older-than 90d")]
pub(crate) struct Prune {
    /// How long ago they must have been closed: 12h, 30d.
    #[arg(long, value_name = "AGE", value_parser = duration::parse, default_value = "30d", allow_hyphen_values = true)]
    older_than: Duration,
}

impl Prune {
    pub(crate) fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let db = connect::database(arguments, Patience::Minute, io)?;
        let progress = Progress::unknown("pruning letters");
        let pruned = db.prune(self.older_than)?;
        drop(progress);
        if arguments.json {
            json_line(io.out, &json!({ "pruned": pruned }))?;
        } else {
            writeln!(io.out, "pruned {}", counted(pruned, "letter"))?;
        }
        Ok(Ending::Done)
    }
}
