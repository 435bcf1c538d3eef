//! `redrive dlq archive`: letters that retention took out of the table.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use redrive::{ArchivedLetter, Database, JobId};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::args::Arguments;
use crate::connect::{self, Patience};
use crate::duration::{ago, rfc3339};
use crate::error::{Error, Result};
use crate::render::json_line;
use crate::table::{Column, Table};
use crate::{Ending, Streams};

/// How many letters are read at a time.
const PAGE: u32 = 500;
/// The source of letters that were not captured from elsewhere.
const OWN_SOURCE: &str = "redrive:letter";

/// Read the archive.
#[derive(Args, Debug)]
pub(crate) struct Archive {
    #[command(subcommand)]
    act: Act,
}

#[derive(Debug, Subcommand)]
enum Act {
    List(List),
    Export(Export),
}

/// List archived letters, in the order of their ids.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  redrive dlq archive list orders
  redrive dlq archive list --json | jq .letter.history")]
struct List {
    /// Only letters of this queue.
    queue: Option<String>,
    /// How many at most.
    #[arg(long, default_value_t = 50, allow_negative_numbers = true, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    limit: u32,
    /// Only letters after this one: the next page.
    #[arg(long, value_name = "ID")]
    after: Option<JobId>,
}

/// Write archived letters as lines of JSON that `dlq capture --file` reads back.
///
/// Read back, each is a new letter, once however often it is read.
#[derive(Args, Debug)]
#[command(after_help = "\
Example:
  redrive dlq archive export orders > orders.ndjson")]
struct Export {
    /// Only letters of this queue.
    queue: Option<String>,
}

impl Archive {
    pub(crate) fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let db = connect::database(arguments, Patience::Minute, io)?;
        match &self.act {
            Act::List(command) => command.run(&db, arguments, io),
            Act::Export(command) => command.run(&db, io),
        }
    }
}

impl List {
    fn run(&self, db: &Database, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let found = db.archived_letters(self.queue.as_deref(), self.after, self.limit)?;
        let Some(last) = found.last() else {
            io.say("the archive has no letter that matches");
            return Ok(Ending::NothingMatched);
        };
        let mut table = Table::new([
            Column::Number("ID"),
            Column::Text("QUEUE"),
            Column::Text("KIND"),
            Column::Text("STATE"),
            Column::Number("ARCHIVED"),
            Column::Text("ERROR"),
        ]);
        for archived in &found {
            if arguments.json {
                json_line(
                    io.out,
                    &json!({
                        "id": archived.id.get(),
                        "queue": archived.queue,
                        "archived_at": rfc3339(archived.archived_at),
                        "letter": archived.letter,
                    }),
                )?;
                continue;
            }
            let stored = Stored::of(archived)?;
            table.row([
                archived.id.to_string(),
                archived.queue.clone(),
                stored.kind,
                stored.state,
                ago(archived.archived_at),
                format!("{}: {}", stored.error_class, stored.error_message),
            ]);
        }
        if !arguments.json {
            table.write(io.out)?;
        }
        if found.len() == self.limit as usize {
            io.out.flush()?;
            io.say(format!("there may be more: --after {}", last.id));
        }
        Ok(Ending::Done)
    }
}

impl Export {
    fn run(&self, db: &Database, io: &mut Streams<'_>) -> Result<Ending> {
        let mut after: Option<JobId> = None;
        loop {
            let page = db.archived_letters(self.queue.as_deref(), after, PAGE)?;
            let Some(last) = page.last() else { break };
            for archived in &page {
                json_line(io.out, &Line::of(archived)?)?;
            }
            after = Some(last.id);
        }
        if after.is_none() {
            io.say("the archive has no letter that matches");
            return Ok(Ending::NothingMatched);
        }
        Ok(Ending::Done)
    }
}

/// What is read of an archived letter.
#[derive(Debug, Deserialize)]
struct Stored {
    kind: String,
    state: String,
    error_class: String,
    error_message: String,
    error_detail: Option<String>,
    source: Option<String>,
    position: Option<String>,
    content_type: Option<String>,
    headers: Option<BTreeMap<String, Value>>,
    #[serde(default, deserialize_with = "even_null")]
    payload: Option<Box<RawValue>>,
    raw_base64: Option<String>,
}

impl Stored {
    fn of(archived: &ArchivedLetter) -> Result<Stored> {
        serde_json::from_str(archived.letter.get()).map_err(|error| {
            let id = archived.id;
            Error::caused_by(format!("could not read letter {id} of the archive"), error)
        })
    }
}

/// A payload that is there, also when it is `null`.
fn even_null<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// A line of the export: the bytes as they were captured, or else the payload.
#[derive(Debug, Serialize)]
struct Line {
    source: String,
    position: String,
    queue: String,
    kind: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    payload: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    raw_base64: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    headers: BTreeMap<String, String>,
    error_class: String,
    error_message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    error_detail: Option<String>,
}

impl Line {
    fn of(archived: &ArchivedLetter) -> Result<Line> {
        let stored = Stored::of(archived)?;
        let text = |value: &Value| {
            let text = value.as_str().map(str::to_owned);
            text.unwrap_or_else(|| value.to_string())
        };
        let headers = stored.headers.unwrap_or_default().into_iter();
        Ok(Line {
            source: stored.source.unwrap_or_else(|| OWN_SOURCE.to_owned()),
            position: stored.position.unwrap_or_else(|| archived.id.to_string()),
            queue: archived.queue.clone(),
            kind: stored.kind,
            payload: match stored.raw_base64 {
                Some(_) => None,
                None => stored.payload,
            },
            raw_base64: stored.raw_base64,
            content_type: stored.content_type,
            headers: headers.map(|(name, value)| (name, text(&value))).collect(),
            error_class: stored.error_class,
            error_message: stored.error_message,
            error_detail: stored.error_detail,
        })
    }
}
