//! `redrive dlq archive`: letters that retention moved to the archive.

mod restore;
mod delete;

use clap::{Args, Subcommand};
use redrive::dlq::{ArchivedLetter, LetterFilter};
use redrive::{Database, JobId};
use serde::Serialize;

use super::filter::FilterArgs;
use crate::context::{Context, Ending};
use crate::error::Result;
use crate::letter::{Backtrace, LetterLine, print_letter};
use crate::ndjson::CaptureLine;
use crate::profession::Profession;
use crate::terminal::{Column, Table, json_line};
use crate::time::{ago, rfc3339};

/// How many letters are read at a time.
const PAGE: u64 = 500;

/// List, show, restore, delete and export archived letters
#[derive(Args, Debug)]
pub(super) struct ArchiveCommand {
    #[command(subcommand)]
    subcommand: ArchiveSubcommand,
}

#[derive(Debug, Subcommand)]
enum ArchiveSubcommand {
    List(ListArchive),
    Show(ShowArchived),
    Restore(restore::RestoreArchived),
    Delete(delete::DeleteArchived),
    Export(ExportArchive),
}

/// List archived letters by id
#[derive(Args, Debug)]
#[command(before_help = "\
Examples:
  redrive dlq archive list orders class=Timeout
  redrive dlq archive list payload.customer=42 --json | jq .history
")]
struct ListArchive {
    /// Only letters of this queue. A condition may take its place.
    #[arg(help_heading = "Selection")]
    queue: Option<String>,
    #[command(flatten)]
    filter: FilterArgs,
    /// At most this many letters.
    #[arg(long, value_name = "N", help_heading = "Selection", default_value_t = 50, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    limit: u64,
    /// Only letters after this one: the next page.
    #[arg(long, value_name = "ID", help_heading = "Selection")]
    after: Option<JobId>,
}

/// Show an archived letter: details, timeline, error and payload
#[derive(Args, Debug)]
#[command(before_help = "Example:\n  redrive dlq archive show 42\n")]
struct ShowArchived {
    /// The id of the letter, which is the id of its job.
    id: JobId,
}

/// Write archived letters as NDJSON for `dlq capture --file`
///
/// Capturing the file creates new letters with the same history and counts. Capturing it again
/// creates none. `redrive dlq archive restore` keeps the ids too.
#[derive(Args, Debug)]
#[command(before_help = "\
Example:
  redrive dlq archive export orders > orders.ndjson
")]
struct ExportArchive {
    /// Only letters of this queue. A condition may take its place.
    #[arg(help_heading = "Selection")]
    queue: Option<String>,
    #[command(flatten)]
    filter: FilterArgs,
}

impl ArchiveCommand {
    /// The role that the command needs.
    pub(super) fn profession(&self) -> Profession {
        match self.subcommand {
            ArchiveSubcommand::List(_)
            | ArchiveSubcommand::Show(_)
            | ArchiveSubcommand::Export(_) => Profession::Reader,
            ArchiveSubcommand::Restore(_) | ArchiveSubcommand::Delete(_) => Profession::Operator,
        }
    }

    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        match &self.subcommand {
            ArchiveSubcommand::List(command) => command.run(cx),
            ArchiveSubcommand::Show(command) => command.run(cx),
            ArchiveSubcommand::Restore(command) => command.run(cx),
            ArchiveSubcommand::Delete(command) => command.run(cx),
            ArchiveSubcommand::Export(command) => command.run(cx),
        }
    }
}

fn nothing_matched(filter: &LetterFilter, cx: &mut Context<'_>) -> Ending {
    cx.say(match filter.to_string().as_str() {
        "" => "the archive is empty".to_owned(),
        conditions => format!("no archived letter matches {conditions}"),
    });
    Ending::NothingMatched
}

/// An archived letter as one line of JSON.
#[derive(Serialize)]
struct ArchivedLine<'a> {
    archived_at: String,
    #[serde(flatten)]
    letter: LetterLine<'a>,
}

impl ArchivedLine<'_> {
    fn of(archived: &ArchivedLetter) -> ArchivedLine<'_> {
        ArchivedLine {
            archived_at: rfc3339(archived.archived_at),
            letter: LetterLine::of(&archived.letter),
        }
    }
}

impl ListArchive {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let matching = self.filter.letters(self.queue.as_deref())?;
        let mut filter = matching.clone().limit(self.limit);
        if let Some(after) = self.after {
            filter = filter.after(after);
        }
        let found = cx.database()?.dlq().archived(&filter)?;
        let Some(last) = found.last() else {
            return Ok(nothing_matched(&matching, cx));
        };
        if cx.global.json {
            for archived in &found {
                json_line(cx.out, &ArchivedLine::of(archived))?;
            }
        } else {
            table(&found).write(cx.out)?;
        }
        if found.len() as u64 == self.limit {
            cx.say_more("letters", &format!("--after {}", last.letter.id))?;
        }
        Ok(Ending::Done)
    }
}

fn table(letters: &[ArchivedLetter]) -> Table {
    let mut table = Table::new([
        Column::Number("ID"),
        Column::Text("QUEUE"),
        Column::Name("KIND"),
        Column::Word("STATE"),
        Column::Number("ARCHIVED"),
        Column::Text("ERROR"),
    ]);
    for ArchivedLetter {
        archived_at,
        letter,
        ..
    } in letters
    {
        table.row([
            letter.id.to_string(),
            letter.queue.clone(),
            letter.kind.clone(),
            letter.state.to_string(),
            ago(*archived_at),
            format!("{}: {}", letter.error_class, letter.error_message),
        ]);
    }
    table
}

impl ShowArchived {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        let Some(archived) = db.dlq().archived_letter(self.id)? else {
            cx.say(match db.dlq().get(self.id)? {
                Some(_) => format!(
                    "letter {} is not archived: redrive dlq show {}",
                    self.id, self.id
                ),
                None => format!("letter {} is not in the archive", self.id),
            });
            return Ok(Ending::NothingMatched);
        };
        if cx.global.json {
            json_line(cx.out, &ArchivedLine::of(&archived))?;
            return Ok(Ending::Done);
        }
        print_letter(cx.out, &archived.letter, &[], None, Backtrace::Full)?;
        writeln!(
            cx.out,
            "\nArchived {} ago. To restore it:\n  redrive dlq archive restore --id {}",
            ago(archived.archived_at),
            self.id
        )?;
        Ok(Ending::Done)
    }
}

impl ExportArchive {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let filter = self.filter.letters(self.queue.as_deref())?;
        let db: Database = cx.database()?;
        let mut page = db.dlq().archived(&filter.clone().limit(PAGE))?;
        if page.is_empty() {
            return Ok(nothing_matched(&filter, cx));
        }
        while let Some(last) = page.last() {
            for archived in &page {
                let letter = &archived.letter;
                let mut line = CaptureLine::of(letter);
                if letter.raw_size.is_some()
                    && let Some(raw) = db.dlq().archived_bytes(letter.id)?
                {
                    line.set_raw(&raw);
                }
                json_line(cx.out, &line)?;
            }
            let next = filter.clone().limit(PAGE).after(last.letter.id);
            page = db.dlq().archived(&next)?;
        }
        Ok(Ending::Done)
    }
}
