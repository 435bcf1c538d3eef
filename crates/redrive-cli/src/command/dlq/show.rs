//! `redrive dlq show`: the whole story of one letter.

use clap::Args;
use redrive::JobId;

use crate::args::Arguments;
use crate::connect::{self, Patience};
use crate::error::Result;
use crate::letter::{LetterLine, story};
use crate::render::json_line;
use crate::{Ending, Streams};

/// Show the whole story of a letter: facts, timeline, error, payload.
#[derive(Args, Debug)]
#[command(after_help = "Example:\n  redrive dlq show 42")]
pub(crate) struct Show {
    /// The letter, which has the id of its job.
    id: JobId,
}

impl Show {
    pub(crate) fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let db = connect::database(arguments, Patience::Minute, io)?;
        let Some(letter) = db.letter(self.id)? else {
            let live = db
                .job(self.id)?
                .map(|job| format!("; it is a live job, {}", job.place));
            io.say(format!(
                "there is no letter {}{}",
                self.id,
                live.unwrap_or_default()
            ));
            return Ok(Ending::NothingMatched);
        };
        if arguments.json {
            json_line(io.out, &LetterLine::of(&letter))?;
        } else {
            story(io.out, &letter)?;
        }
        Ok(Ending::Done)
    }
}
