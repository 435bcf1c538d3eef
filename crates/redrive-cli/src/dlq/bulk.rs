//! Shared by `redrive` and `discard`: letters by id at once, letters by condition after `--yes`.

use clap::Args;
use redrive::dlq::{LetterCount, LetterFilter, LetterState};
use redrive::{Database, JobId};
use serde_json::json;

use super::filter::quoted;
use super::letter_table::letter_table;
use super::selection::Selection;
use crate::context::{Context, Ending};
use crate::error::Result;
use crate::terminal::{Progress, counted, grouped, json_line};

/// How many letters change between two updates of the progress bar.
const BATCH: u64 = 500;
/// How many letters a dry run shows.
const SAMPLE: u64 = 5;

/// The letters to act on, and whether to act.
#[derive(Args, Debug)]
#[group(skip)]
pub(super) struct BulkSelection {
    #[command(flatten)]
    selection: Selection,
    /// Change nothing; show how many letters match, and some of them.
    #[arg(long, help_heading = "Action", conflicts_with = "yes")]
    dry_run: bool,
    /// Act on all letters that match.
    #[arg(long, help_heading = "Action")]
    yes: bool,
}

/// The mode that the arguments select.
pub(super) enum BulkPlan {
    /// Show what would change.
    DryRun,
    /// Act on the letters with the given ids.
    Ids,
    /// Act on all letters that match.
    Matching,
}

/// An action on letters, in words.
pub(super) struct BulkAction<'a> {
    /// The subcommand.
    pub(super) command: &'static str,
    /// The participle: `redriven`.
    pub(super) participle: &'static str,
    /// The label of the progress bar: `redriving`.
    pub(super) progressive: &'static str,
    /// How many of the matching letters the action changes.
    pub(super) affects: fn(&LetterCount) -> u64,
    /// The reason, if the action requires one.
    pub(super) reason: Option<&'a str>,
}

impl BulkSelection {
    pub(super) fn plan(&self) -> BulkPlan {
        match (self.ids().is_empty(), self.dry_run) {
            (_, true) => BulkPlan::DryRun,
            (false, false) => BulkPlan::Ids,
            (true, false) if self.yes => BulkPlan::Matching,
            (true, false) => BulkPlan::DryRun,
        }
    }

    /// The ids on the command line.
    pub(super) fn ids(&self) -> &[JobId] {
        self.selection.ids()
    }

    /// The selected letters that are open.
    pub(super) fn open_letters(&self) -> Result<LetterFilter> {
        Ok(self.selection.letters()?.or_state(LetterState::Open))
    }

    /// The selected letters in any state. The action takes those whose state allows it.
    pub(super) fn letters(&self) -> Result<LetterFilter> {
        self.selection.letters()
    }

    /// How many of `matching` letters the limit allows.
    pub(super) fn limited(&self, matching: u64) -> u64 {
        self.selection.limited(matching)
    }

    /// Shows how many letters match, some of them, and the command that acts.
    pub(super) fn dry_run(
        &self,
        action: &BulkAction<'_>,
        db: &Database,
        cx: &mut Context<'_>,
    ) -> Result<Ending> {
        let count = db.dlq().count(&self.open_letters()?)?;
        let affected = self.limited((action.affects)(&count));
        if cx.global.json {
            json_line(
                cx.out,
                &json!({ "dry_run": true, "matching": count.letters, "would_change": affected }),
            )?;
        } else if count.letters > 0 {
            let matching = counted(count.letters, "open letter");
            let verb = if count.letters == 1 {
                "matches"
            } else {
                "match"
            };
            writeln!(
                cx.out,
                "{matching} {verb}; {} would be {}.\n",
                grouped(affected),
                action.participle
            )?;
            let sample = db.dlq().list(&self.open_letters()?.limit(SAMPLE))?;
            letter_table(&sample).write(cx.out)?;
            writeln!(
                cx.out,
                "\nNothing was changed. To act:\n  {}",
                self.command_line(action, &[])
            )?;
        }
        if count.letters == 0 {
            cx.say("no open letter matches");
            return Ok(Ending::NothingMatched);
        }
        Ok(Ending::Done)
    }

    /// The command line that acts, with further options.
    pub(super) fn command_line(&self, action: &BulkAction<'_>, options: &[String]) -> String {
        let mut words: Vec<String> = vec!["redrive dlq".to_owned(), action.command.to_owned()];
        words.push(self.selection.words());
        words.extend(
            action
                .reason
                .map(|reason| format!("--reason {}", quoted(reason))),
        );
        words.extend(options.iter().cloned());
        if self.ids().is_empty() {
            words.push("--yes".to_owned());
        }
        words.join(" ")
    }

    /// Acts on the matching letters in batches, on as many as matched at the beginning.
    ///
    /// The bound ends the loop even if letters die again while it runs.
    pub(super) fn in_batches(
        &self,
        action: &BulkAction<'_>,
        db: &Database,
        mut batch: impl FnMut(&LetterFilter) -> Result<u64>,
    ) -> Result<u64> {
        let total = self.limited((action.affects)(&db.dlq().count(&self.open_letters()?)?));
        let progress = Progress::of(action.progressive, total);
        let mut changed = 0;
        while changed < total {
            let now = batch(&self.open_letters()?.limit(BATCH.min(total - changed)))?;
            if now == 0 {
                break;
            }
            changed += now;
            progress.at(changed);
        }
        Ok(changed)
    }
}
