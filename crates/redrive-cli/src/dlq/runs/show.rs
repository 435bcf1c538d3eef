//! `redrive dlq runs show`: a run, and the outcome of each of its letters.

use redrive::dlq::runs::{RunId, RunLetter};
use redrive::dlq::{LetterFilter, LetterState, Skip};

use super::no_run;
use crate::dlq::blocked::blocks;
use crate::dlq::run_report::{print_run, run_line, skips};
use crate::letter::outcome_text;
use crate::prelude::*;
use crate::terminal::write_labelled;

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
pub(crate) struct ShowRun {
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
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        if !self.letters {
            return show(self.id, cx);
        }
        if db.dlq().runs().get(self.id)?.is_none() {
            return no_run(self.id, cx);
        }
        let limit = self.limit.unwrap_or(LETTERS);
        let after = self.after.unwrap_or(0);
        let mut letters = db.dlq().runs().letters(self.id, after, limit + 1)?;
        let more = More::after(limit, "letters", &mut letters, |last| {
            format!("--after {}", last.place)
        });
        let table = table!(letter in &letters => {
            Number "PLACE" => letter.place,
            Number "LETTER" => letter.letter,
            Word "STATE NOW" => letter.state.map_or("removed", LetterState::as_str),
            Text "OUTCOME IN THIS RUN" => outcome_text(letter.outcome, letter.skip),
        });
        let none = format!("no letter of run {} is left to list", self.id);
        cx.list_some(&more, &none, &letters, letter_json, &table)
    }
}

fn letter_json(letter: &RunLetter) -> impl Serialize {
    object!(letter =>
        run, place, id = letter.letter.json(), state, outcome = letter.outcome.as_str(),
        reason = letter.skip.map(Skip::as_str),
    )
}

/// Shows a run and what it waits for.
pub(in crate::dlq) fn show(id: RunId, cx: &mut Context<'_>) -> Result<Ending> {
    let db = &cx.database()?;
    let Some(run) = db.dlq().runs().get(id)? else {
        return no_run(id, cx);
    };
    let blocked = match run.still_running {
        0 => Vec::new(),
        _ => db.dlq().blocked(&LetterFilter::new().run(id), None)?,
    };
    let skips = skips(&run, db)?;
    if cx.global.json {
        json_line(
            cx.out,
            &run_line(&run, Some(&skips[..]), Some(&blocked[..])),
        )?;
    } else {
        print_run(&run, &skips, cx.out)?;
        for block in blocks(&blocked) {
            let label = format!("  {:<16} ", "blocked");
            write_labelled(cx.out, &label, &clean(&block.line()))?;
        }
    }
    Ok(Ending::Done)
}
