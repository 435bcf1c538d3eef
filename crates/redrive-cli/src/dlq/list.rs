//! `redrive dlq list`: letters, one line each.

use clap::Args;
use redrive::JobId;
use redrive::dlq::LetterState;

use super::filter::{FilterArgs, StateArg};
use super::letter_table::letter_table;
use super::none_matched::{NoneMatched, list_command};
use crate::context::{Context, Ending};
use crate::error::Result;
use crate::letter::LetterLine;
use crate::terminal::json_line;

/// List letters, newest death first
#[derive(Args, Debug)]
#[command(before_help = "\
Examples:
  redrive dlq list
  redrive dlq list orders --cause rejected --limit 200
  redrive dlq list class=Timeout 'age>2h' 'payload.amount>100'
  redrive dlq list orders --state any --json | jq .error_message
")]
pub(super) struct ListLetters {
    /// Letters of this queue. A condition may take its place.
    queue: Option<String>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Only letters in this state: open, redriving, recovered, discarded, quarantined, any
    /// [default: open].
    #[arg(long, help_heading = "Selection")]
    state: Option<StateArg>,
    /// At most this many letters.
    #[arg(long, value_name = "N", help_heading = "Selection", default_value_t = 50, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    limit: u64,
    /// Only letters after this one: the next page.
    #[arg(long, value_name = "ID", help_heading = "Selection")]
    after: Option<JobId>,
}

impl ListLetters {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let filter = self.filter.letters(self.queue.as_deref())?;
        let mut filter = match self.state {
            None => filter.or_state(LetterState::Open),
            Some(state) => filter.and(state.filter())?,
        }
        .limit(self.limit);
        if let Some(after) = self.after {
            filter = filter.after(after);
        }
        let db = cx.database()?;
        let letters = db.dlq().list(&filter)?;
        if cx.global.json {
            for letter in &letters {
                json_line(cx.out, &LetterLine::of(letter))?;
            }
        } else if !letters.is_empty() {
            letter_table(&letters).write(cx.out)?;
        }
        match letters.last() {
            // The page after the last letter says nothing about other states.
            None if self.after.is_some() => {
                cx.say(format!("no letter matches {filter}"));
                return Ok(Ending::NothingMatched);
            }
            None => {
                let states = filter.named_states().unwrap_or_default();
                let none = NoneMatched {
                    queue: self.queue.as_deref(),
                    filter: &filter,
                    states: &states,
                    what: format!("no letter matches {filter}"),
                    by_id: "show",
                    quarantined: &|conditions| list_command(conditions, LetterState::Quarantined),
                };
                return none.say(&db, cx);
            }
            Some(last) if letters.len() as u64 == self.limit => {
                cx.say_more("letters", &format!("--after {}", last.id))?;
            }
            Some(_) => {}
        }
        Ok(Ending::Done)
    }
}
