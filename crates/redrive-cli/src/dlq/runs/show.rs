//! `redrive dlq runs show`: a run, and the outcome of each of its letters.

use clap::Args;
use redrive::Database;
use redrive::dlq::runs::{RunId, RunLetter};
use redrive::dlq::{Blocked, LetterState};
use serde_json::json;

use super::no_run;
use crate::context::{Context, Ending};
use crate::dlq::run_progress::run_waits;
use crate::dlq::run_report::{RunLine, print_run, skips};
use crate::error::Result;
use crate::letter::skip_reason;
use crate::terminal::{Column, Table, clean, json_line, write_labelled};

/// How many letters are listed by default.
const LETTERS: u32 = 50;

/// Show the outcomes of a run, or of each of its letters
///
/// An outcome belongs to this run: a later run of the same letter does not change it.
#[derive(Args, Debug)]
#[command(before_help = "\
Examples:
  redrive dlq runs show 7
  redrive dlq runs show 7 --letters --after 50
  redrive dlq runs show 7 --letters --json | jq 'select(.outcome == \"skipped\")'
")]
pub(super) struct ShowRun {
    /// The id of the run.
    id: RunId,
    /// List the letters with their state now and their outcome in this run.
    #[arg(long)]
    letters: bool,
    /// At most this many letters [default: 50].
    #[arg(long, value_name = "N", requires = "letters", allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: Option<u32>,
    /// Only letters after this place in the run: the next page.
    #[arg(long, value_name = "PLACE", requires = "letters")]
    after: Option<u64>,
}

impl ShowRun {
    pub(super) fn run(&self, db: &Database, cx: &mut Context<'_>) -> Result<Ending> {
        if !self.letters {
            return show(self.id, db, cx);
        }
        if db.dlq().runs().get(self.id)?.is_none() {
            return Ok(no_run(self.id, cx));
        }
        let limit = self.limit.unwrap_or(LETTERS);
        let letters = db
            .dlq()
            .runs()
            .letters(self.id, self.after.unwrap_or(0), limit)?;
        if cx.global.json {
            for letter in &letters {
                json_line(cx.out, &letter_json(self.id, letter))?;
            }
        } else if !letters.is_empty() {
            table(&letters).write(cx.out)?;
        }
        match letters.last() {
            None => {
                cx.say(format!("no letter of run {} is left to list", self.id));
                return Ok(Ending::NothingMatched);
            }
            Some(last) if letters.len() as u64 == u64::from(limit) => {
                cx.say_more("letters", &format!("--after {}", last.place))?;
            }
            Some(_) => {}
        }
        Ok(Ending::Done)
    }
}

fn state(letter: &RunLetter) -> &'static str {
    letter.state.map_or("removed", LetterState::as_str)
}

fn table(letters: &[RunLetter]) -> Table {
    let mut table = Table::new([
        Column::Number("PLACE"),
        Column::Number("LETTER"),
        Column::Word("STATE NOW"),
        Column::Text("OUTCOME IN THIS RUN"),
    ]);
    for letter in letters {
        table.row([
            letter.place.to_string(),
            letter.letter.to_string(),
            state(letter).to_owned(),
            letter.outcome.to_string(),
        ]);
    }
    table
}

fn letter_json(run: RunId, letter: &RunLetter) -> serde_json::Value {
    json!({
        "run": run.get(),
        "place": letter.place,
        "id": letter.letter.get(),
        "state": letter.state.map(LetterState::as_str),
        "outcome": letter.outcome.as_str(),
        "reason": skip_reason(letter.outcome),
    })
}

/// Shows a run and what it waits for.
pub(super) fn show(id: RunId, db: &Database, cx: &mut Context<'_>) -> Result<Ending> {
    let Some(run) = db.dlq().runs().get(id)? else {
        return Ok(no_run(id, cx));
    };
    let blocked = match run.still_running {
        0 => Blocked::default(),
        _ => db.dlq().runs().blocked(id)?,
    };
    let skips = skips(&run, db)?;
    if cx.global.json {
        json_line(cx.out, &RunLine::of(&run, &skips).with(&blocked))?;
    } else {
        print_run(&run, &skips, cx.out)?;
        for wait in run_waits(&run, &blocked) {
            let label = format!("  {:<16} ", "waiting for");
            write_labelled(cx.out, &label, &clean(&wait))?;
        }
    }
    Ok(Ending::Done)
}
