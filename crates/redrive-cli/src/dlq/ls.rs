//! `redrive dlq ls`: the error classes, or the letters of one.

use clap::Args;
use redrive::Database;
use redrive::dlq::{LetterFilter, LetterProperty, LetterState};
use serde_json::json;

use super::filter::quoted;
use super::letter_table::letter_table;
use crate::context::{Context, Ending};
use crate::error::Result;
use crate::letter::LetterLine;
use crate::terminal::{Column, Table, Window, command_lines, grouped, json_line};
use crate::time::{ago, rfc3339};

/// Count the waiting letters by error class, or list the newest letters of one class
///
/// Open and quarantined letters wait. `redrive dlq list` takes other conditions.
#[derive(Args, Debug)]
#[command(before_help = "\
Examples:
  redrive dlq ls
  redrive dlq ls ValueError 50
")]
pub(super) struct Ls {
    /// List the letters whose last error has this class.
    class: Option<String>,
    /// At most this many letters or classes.
    #[arg(value_name = "N", default_value_t = 20, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    limit: u64,
}

impl Ls {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        let waiting = LetterFilter::new().states([LetterState::Open, LetterState::Quarantined]);
        match &self.class {
            Some(class) => self.letters(&waiting.error_class(class), class, &db, cx),
            None => self.classes(&waiting, &db, cx),
        }
    }

    fn classes(
        &self,
        waiting: &LetterFilter,
        db: &Database,
        cx: &mut Context<'_>,
    ) -> Result<Ending> {
        let mut counts = db.dlq().count_by(waiting, &LetterProperty::CLASS)?;
        counts.truncate(usize::try_from(self.limit).unwrap_or(usize::MAX));
        let Some(first) = counts.first() else {
            cx.say("no letter is waiting");
            return Ok(Ending::NothingMatched);
        };
        if cx.global.json {
            for count in &counts {
                json_line(
                    cx.out,
                    &json!({
                        "error_class": count.value,
                        "letters": count.letters,
                        "first_at": rfc3339(count.first_at),
                        "last_at": rfc3339(count.last_at),
                    }),
                )?;
            }
            return Ok(Ending::Done);
        }
        let mut table = Table::new([
            Column::Number("LETTERS"),
            Column::Number("FIRST"),
            Column::Number("LAST"),
            Column::Text("CLASS"),
        ]);
        for count in &counts {
            table.row([
                grouped(count.letters),
                ago(count.first_at),
                ago(count.last_at),
                count.value.clone().unwrap_or_default(),
            ]);
        }
        table.write(cx.out)?;
        let class = quoted(first.value.as_deref().unwrap_or_default());
        let columns = Window::of_stdout().columns();
        let command = command_lines("  ", &format!("redrive dlq ls {class}"), columns);
        writeln!(cx.out, "\n{command}")?;
        Ok(Ending::Done)
    }

    fn letters(
        &self,
        filter: &LetterFilter,
        class: &str,
        db: &Database,
        cx: &mut Context<'_>,
    ) -> Result<Ending> {
        let letters = db.dlq().list(&filter.clone().limit(self.limit))?;
        if letters.is_empty() {
            cx.say(format!(
                "no letter of the class {class} is waiting: redrive dlq ls"
            ));
            return Ok(Ending::NothingMatched);
        }
        if cx.global.json {
            for letter in &letters {
                json_line(cx.out, &LetterLine::of(letter))?;
            }
        } else {
            letter_table(&letters).write(cx.out)?;
        }
        Ok(Ending::Done)
    }
}
