//! `redrive dlq archive`: letters that retention moved to the archive.

mod change;

use redrive::JobId;
use redrive::dlq::LetterFilter;

use super::letter_table::letter_table;
use crate::letter::letter_line;
use crate::ndjson::CaptureLine;
use crate::not_done::Why;
use crate::prelude::*;

subcommands! {
    /// List, restore, delete and export archived letters
    pub(super) enum ArchiveCommand {
        List(ListArchive),
        Restore(change::RestoreArchived),
        Delete(change::DeleteArchived),
        Export(ExportArchive),
    }
}

/// List archived letters by id
#[derive(Args, Debug)]
#[command(before_help = "\
Examples:
  redrive dlq archive list orders class=Timeout
  redrive dlq archive list payload.customer=42 --json | jq .history
")]
pub(crate) struct ListArchive {
    #[command(flatten)]
    words: Words,
    #[command(flatten)]
    page: Page,
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
pub(crate) struct ExportArchive {
    #[command(flatten)]
    words: Words,
}

fn nothing_matched(filter: &LetterFilter, cx: &mut Context<'_>) -> Result<Ending> {
    cx.nothing(match filter.to_string().as_str() {
        "" => "the archive is empty".to_owned(),
        conditions => format!("no archived letter matches {conditions}"),
    })
}

/// Why a command takes none of these letters, which were given by id.
fn not_archived(ids: &[JobId]) -> impl Iterator<Item = (JobId, Why)> {
    let gone = ("gone", "it is not in the archive".to_owned());
    ids.iter().map(move |id| (*id, gone.clone()))
}

impl ListArchive {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let matching = self.words.letters()?;
        let filter = self.page.of(matching.clone());
        let mut found = cx.database()?.dlq().archived(&filter)?;
        if found.is_empty() && self.page.after.is_some() {
            return cx.nothing("there is no next page");
        }
        if found.is_empty() {
            return nothing_matched(&matching, cx);
        }
        let more = More::after(self.page.limit, "letters", &mut found, |last| {
            format!("--after {}", last.id)
        });
        cx.list_some(&more, "", &found, letter_line, &letter_table(&found))
    }
}

impl ExportArchive {
    fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let filter = self.words.letters()?;
        let db = cx.database()?;
        let dlq = db.dlq();
        let written = dlq.for_each_archived(&filter, |archived| -> Result<()> {
            let all = |id| dlq.archived_bytes(id);
            json_line(cx.out, &CaptureLine::of(archived, all)?)
        })?;
        match written {
            0 => nothing_matched(&filter, cx),
            _ => Ok(Ending::Done),
        }
    }
}
