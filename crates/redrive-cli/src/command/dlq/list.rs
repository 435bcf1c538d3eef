//! `redrive dlq list`: letters, a line each.

use clap::Args;
use redrive::{JobId, Letter, LetterState};

use super::filter::Filter;
use crate::args::Arguments;
use crate::connect::{self, Patience};
use crate::duration::ago;
use crate::error::Result;
use crate::letter::LetterLine;
use crate::render::json_line;
use crate::table::{Column, Table};
use crate::{Ending, Streams};

/// List letters, the newest death first.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  redrive dlq list
  redrive dlq list orders --reason rejected --limit 200
  redrive dlq list class=Timeout 'died>2h' 'payload.amount>100'
  redrive dlq list orders --state any --json | jq .error_message")]
pub(crate) struct List {
    /// Only letters of this queue; or a condition.
    queue: Option<String>,
    #[command(flatten)]
    filter: Filter,
    /// Only letters in this state: open, redriving, recovered, discarded, quarantined, any.
    /// Defaults to open.
    #[arg(long, value_parser = state)]
    state: Option<State>,
    /// How many at most.
    #[arg(long, default_value_t = 50, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    limit: u64,
    /// Only letters listed after this one: the next page.
    #[arg(long, value_name = "ID")]
    after: Option<JobId>,
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

impl List {
    pub(crate) fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let said = self.filter.letters(self.queue.as_deref())?;
        let mut which = match self.state {
            None => said.or_state(LetterState::Open),
            // Read once more, so that a state is not said twice.
            Some(State::Only(state)) => format!("{said} state={state}").parse()?,
            Some(State::Any) => format!("{said} state=any").parse()?,
        }
        .limit(self.limit);
        if let Some(after) = self.after {
            which = which.after(after);
        }
        let letters = connect::database(arguments, Patience::Minute, io)?.letters(&which)?;
        if arguments.json {
            for letter in &letters {
                json_line(io.out, &LetterLine::of(letter))?;
            }
        } else if !letters.is_empty() {
            table(&letters).write(io.out)?;
        }
        match letters.last() {
            None => {
                io.say(format!("no letter matches {which}"));
                return Ok(Ending::NothingMatched);
            }
            Some(last) if letters.len() as u64 == self.limit => {
                io.out.flush()?;
                io.say(format!("there may be more: --after {}", last.id));
            }
            Some(_) => {}
        }
        Ok(Ending::Done)
    }
}

/// A table of open letters.
pub(super) fn open_letters(letters: &[Letter]) -> Table {
    table(letters)
}

/// A table of letters; their state is told when one of them is not open.
fn table(letters: &[Letter]) -> Table {
    let is_told = letters
        .iter()
        .any(|letter| letter.state != LetterState::Open);
    let mut columns = vec![
        Column::Number("ID"),
        Column::Text("QUEUE"),
        Column::Text("KIND"),
    ];
    if is_told {
        columns.push(Column::Text("STATE"));
    }
    columns.extend([
        Column::Text("REASON"),
        Column::Number("AGE"),
        Column::Text("ERROR"),
    ]);
    let mut table = Table::new(columns);
    for letter in letters {
        let mut cells = vec![
            letter.id.to_string(),
            letter.queue.clone(),
            letter.kind.clone(),
        ];
        if is_told {
            cells.push(letter.state.to_string());
        }
        let error = match &*letter.error_message {
            "" => letter.error_class.clone(),
            message => format!("{}: {message}", letter.error_class),
        };
        cells.extend([letter.reason.to_string(), ago(letter.died_at), error]);
        table.row(cells);
    }
    table
}
