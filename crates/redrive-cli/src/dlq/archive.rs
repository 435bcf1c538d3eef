//! `redrive dlq archive`: letters that retention moved to the archive.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use redrive::dlq::ArchivedLetter;
use redrive::{Database, JobId};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::context::{Context, Ending};
use crate::error::{Error, Result};
use crate::ndjson::{CaptureLine, OWN_SOURCE, present};
use crate::terminal::{Column, Table, json_line};
use crate::time::{ago, rfc3339};

/// How many letters are read at a time.
const PAGE: u32 = 500;

/// List and export archived letters
#[derive(Args, Debug)]
pub(super) struct ArchiveCommand {
    #[command(subcommand)]
    subcommand: ArchiveSubcommand,
}

#[derive(Debug, Subcommand)]
enum ArchiveSubcommand {
    List(ListArchive),
    Export(ExportArchive),
}

/// List archived letters by id
#[derive(Args, Debug)]
#[command(before_help = "\
Examples:
  redrive dlq archive list orders
  redrive dlq archive list --json | jq .letter.history
")]
struct ListArchive {
    /// Only letters of this queue.
    queue: Option<String>,
    /// At most this many letters.
    #[arg(long, value_name = "N", default_value_t = 50, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Only letters after this one: the next page.
    #[arg(long, value_name = "ID")]
    after: Option<JobId>,
}

/// Write archived letters as NDJSON for `dlq capture --file`
///
/// Capturing the file creates new letters. Capturing it again creates none.
#[derive(Args, Debug)]
#[command(before_help = "\
Example:
  redrive dlq archive export orders > orders.ndjson
")]
struct ExportArchive {
    /// Only letters of this queue.
    queue: Option<String>,
}

impl ArchiveCommand {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        match &self.subcommand {
            ArchiveSubcommand::List(command) => command.run(&db, cx),
            ArchiveSubcommand::Export(command) => command.run(&db, cx),
        }
    }
}

fn nothing_matched(cx: &mut Context<'_>) -> Ending {
    cx.say("no archived letter matches");
    Ending::NothingMatched
}

impl ListArchive {
    fn run(&self, db: &Database, cx: &mut Context<'_>) -> Result<Ending> {
        let found = db
            .dlq()
            .archived(self.queue.as_deref(), self.after, self.limit)?;
        let Some(last) = found.last() else {
            return Ok(nothing_matched(cx));
        };
        if cx.global.json {
            for archived in &found {
                json_line(
                    cx.out,
                    &json!({
                        "id": archived.id.get(),
                        "queue": archived.queue,
                        "archived_at": rfc3339(archived.archived_at),
                        "letter": archived.letter,
                    }),
                )?;
            }
        } else {
            table(&found)?.write(cx.out)?;
        }
        if found.len() == self.limit as usize {
            cx.say_more("letters", &format!("--after {}", last.id))?;
        }
        Ok(Ending::Done)
    }
}

fn table(letters: &[ArchivedLetter]) -> Result<Table> {
    let mut table = Table::new([
        Column::Number("ID"),
        Column::Text("QUEUE"),
        Column::Name("KIND"),
        Column::Word("STATE"),
        Column::Number("ARCHIVED"),
        Column::Text("ERROR"),
    ]);
    for archived in letters {
        let stored = StoredLetter::of(archived)?;
        table.row([
            archived.id.to_string(),
            archived.queue.clone(),
            stored.kind,
            stored.state,
            ago(archived.archived_at),
            format!("{}: {}", stored.error_class, stored.error_message),
        ]);
    }
    Ok(table)
}

impl ExportArchive {
    fn run(&self, db: &Database, cx: &mut Context<'_>) -> Result<Ending> {
        let mut after: Option<JobId> = None;
        loop {
            let page = db.dlq().archived(self.queue.as_deref(), after, PAGE)?;
            let Some(last) = page.last() else { break };
            for archived in &page {
                json_line(cx.out, &StoredLetter::of(archived)?.capture_line(archived))?;
            }
            after = Some(last.id);
        }
        Ok(match after {
            Some(_) => Ending::Done,
            None => nothing_matched(cx),
        })
    }
}

/// The stored JSON of an archived letter.
#[derive(Debug, Deserialize)]
struct StoredLetter {
    kind: String,
    state: String,
    error_class: String,
    error_message: String,
    error_detail: Option<String>,
    source: Option<String>,
    position: Option<String>,
    content_type: Option<String>,
    headers: Option<BTreeMap<String, Value>>,
    group_key: Option<String>,
    #[serde(default, deserialize_with = "present")]
    payload: Option<Box<RawValue>>,
    raw_base64: Option<String>,
}

impl StoredLetter {
    fn of(archived: &ArchivedLetter) -> Result<StoredLetter> {
        serde_json::from_str(archived.letter.get()).map_err(|error| {
            let id = archived.id;
            Error::caused_by(format!("could not read archived letter {id}"), error)
        })
    }

    /// The letter as a line from which it can be captured.
    fn capture_line(self, archived: &ArchivedLetter) -> CaptureLine {
        let text = |value: &Value| {
            let text = value.as_str().map(str::to_owned);
            text.unwrap_or_else(|| value.to_string())
        };
        let headers = self.headers.unwrap_or_default().into_iter();
        CaptureLine {
            source: self.source.unwrap_or_else(|| OWN_SOURCE.to_owned()),
            position: self.position.unwrap_or_else(|| archived.id.to_string()),
            queue: archived.queue.clone(),
            kind: self.kind,
            payload: match self.raw_base64 {
                Some(_) => None,
                None => self.payload,
            },
            raw_base64: self.raw_base64,
            content_type: self.content_type,
            headers: headers.map(|(name, value)| (name, text(&value))).collect(),
            error_class: Some(self.error_class),
            error_message: Some(self.error_message),
            error_detail: self.error_detail,
            group_key: self.group_key,
            ..CaptureLine::default()
        }
    }
}
