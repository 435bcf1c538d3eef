//! `redrive dlq export`: letters as lines that `dlq capture --file` or `enqueue --file` read back.

use clap::Args;
use redrive::LetterState;

use super::chosen::Chosen;
use crate::args::Arguments;
use crate::capture_line::CaptureLine;
use crate::connect::{self, Patience};
use crate::error::{Error, Result};
use crate::render::{counted, json_line};
use crate::{Ending, Streams};

/// Write letters as lines of JSON, to be captured or enqueued elsewhere.
///
/// `dlq capture --file` reads them back: captured ones keep their source and position, others
/// have the source `redrive:letter` and their id as position. Bytes come back as they were.
/// However many letters there are, memory is bounded.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  redrive dlq export orders > orders.ndjson
  redrive dlq export orders --state any | gzip > orders.ndjson.gz
  redrive dlq capture --file orders.ndjson
  redrive dlq export orders --kind order.placed --as-jobs |
    redrive enqueue orders order.placed --file -")]
pub(crate) struct Export {
    #[command(flatten)]
    chosen: Chosen,
    /// Only letters in this state: open, redriving, recovered, discarded, quarantined, any.
    #[arg(long, default_value = "open", value_parser = state)]
    state: State,
    /// Write the payloads alone, as `enqueue --file` reads them. Letters that are not JSON are
    /// left out, and named.
    #[arg(long)]
    as_jobs: bool,
}

/// A state, or any.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Only(LetterState),
    Any,
}

fn state(text: &str) -> Result<State, String> {
    if text == "any" {
        return Ok(State::Any);
    }
    text.parse()
        .map(State::Only)
        .map_err(|error: redrive::Error| format!("{error}, and any"))
}

impl Export {
    pub(crate) fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let letters = match self.state {
            State::Only(state) => self.chosen.letters()?.state(state),
            State::Any => self.chosen.letters()?,
        };
        let db = connect::database(arguments, Patience::Minute, io)?;
        let mut left_out = 0_u64;
        let visited = db.each_letter(&letters, |letter| -> Result<()> {
            if !self.as_jobs {
                return json_line(io.out, &CaptureLine::of(letter));
            }
            match &letter.payload {
                Some(payload) => json_line(io.out, payload)?,
                None => {
                    left_out += 1;
                    io.say(format!(
                        "letter {} is left out: it was captured and is not JSON",
                        letter.id
                    ));
                }
            }
            Ok(())
        })?;
        io.out.flush().map_err(Error::from)?;
        if visited == 0 {
            io.say("no letter matches");
            return Ok(Ending::NothingMatched);
        }
        let written = match self.as_jobs {
            true => "job",
            false => "letter",
        };
        io.say(format!("{} exported", counted(visited - left_out, written)));
        Ok(match left_out {
            0 => Ending::Done,
            _ => Ending::NothingMatched,
        })
    }
}
