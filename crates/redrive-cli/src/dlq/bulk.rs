//! Shared by `redrive` and `discard`: letters by id at once, letters by condition after `--yes`.

use clap::Args;
use redrive::dlq::{LetterCount, LetterFilter, LetterState};
use redrive::{Database, JobId};
use serde_json::json;

use super::filter::quoted;
use super::left_out::{LeftOutLine, left_out_json, matching, write_left_out};
use super::letter_table::letter_table;
use super::none_matched::words;
use super::selection::Selection;
use crate::context::{Context, Ending};
use crate::error::Result;
use crate::terminal::{Progress, grouped, json_line};

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

    /// The first argument, which may be a queue or a condition.
    pub(super) fn queue(&self) -> Option<&str> {
        self.selection.queue()
    }

    /// The states from which the selected letters may be closed: open, and quarantined if the
    /// letters are given by id or by that state. Empty if the conditions name only other states.
    pub(super) fn closable_states(&self) -> Result<Vec<LetterState>> {
        let closable = [LetterState::Open, LetterState::Quarantined];
        Ok(match self.selection.letters()?.named_states() {
            Some(named) => named
                .into_iter()
                .filter(|state| closable.contains(state))
                .collect(),
            None if self.ids().is_empty() => vec![LetterState::Open],
            None => closable.to_vec(),
        })
    }

    /// The selected letters that may be closed; `None` if the conditions exclude them all.
    pub(super) fn closable(&self) -> Result<Option<LetterFilter>> {
        let states = self.closable_states()?;
        Ok(match states.is_empty() {
            true => None,
            false => Some(self.selection.letters()?.states(states)),
        })
    }

    /// The selected letters in any state. The action takes those whose state allows it.
    pub(super) fn letters(&self) -> Result<LetterFilter> {
        self.selection.letters()
    }

    /// How many of `matching` letters the limit allows.
    pub(super) fn limited(&self, matching: u64) -> u64 {
        self.selection.limited(matching)
    }

    /// Shows how many letters match, some of them, those left out, and the command that acts.
    /// Returns `None` if no letter matches.
    pub(super) fn dry_run(
        &self,
        action: &BulkAction<'_>,
        db: &Database,
        cx: &mut Context<'_>,
    ) -> Result<Option<Ending>> {
        let closable = self.closable()?;
        let count = match &closable {
            Some(closable) => db.dlq().count(closable)?,
            None => LetterCount::default(),
        };
        let affected = self.limited((action.affects)(&count));
        let left_out = self.left_out(db)?;
        if cx.global.json {
            json_line(
                cx.out,
                &json!({
                    "dry_run": true,
                    "matching": count.letters,
                    "would_change": affected,
                    "left_out": left_out_json(&left_out),
                }),
            )?;
        } else if let Some(closable) = closable
            && count.letters > 0
        {
            writeln!(
                cx.out,
                "{}; {} would be {}.\n",
                matching(count.letters, &words(&self.closable_states()?)),
                grouped(affected),
                action.participle
            )?;
            write_left_out(&left_out, cx.out)?;
            let sample = db.dlq().list(&closable.limit(SAMPLE))?;
            letter_table(&sample).write(cx.out)?;
            writeln!(
                cx.out,
                "\nNothing was changed. To act:\n  {}",
                self.command_line(action, &[])
            )?;
        }
        Ok(match count.letters {
            0 => None,
            _ => Some(Ending::Done),
        })
    }

    /// The matching letters that are not closed because of their state.
    fn left_out(&self, db: &Database) -> Result<Vec<LeftOutLine>> {
        let letters = self.selection.letters()?;
        let closable = self.closable_states()?;
        let candidates = letters
            .named_states()
            .unwrap_or_else(|| vec![LetterState::Quarantined]);
        let mut lines = Vec::new();
        for state in candidates {
            if closable.contains(&state) {
                continue;
            }
            let letters = db.dlq().count(&letters.clone().state(state))?.letters;
            if letters == 0 {
                continue;
            }
            let (because, include) = match state == LetterState::Quarantined {
                true => (
                    state.to_string(),
                    Some("the condition state=open,quarantined includes them".to_owned()),
                ),
                false => (format!("already {state}"), None),
            };
            lines.push(LeftOutLine {
                letters,
                reason: state.as_str(),
                state: Some(state.as_str()),
                because,
                include,
            });
        }
        Ok(lines)
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
        let Some(closable) = self.closable()? else {
            return Ok(0);
        };
        let total = self.limited((action.affects)(&db.dlq().count(&closable)?));
        let progress = Progress::of(action.progressive, total);
        let mut changed = 0;
        while changed < total {
            let now = batch(&closable.clone().limit(BATCH.min(total - changed)))?;
            if now == 0 {
                break;
            }
            changed += now;
            progress.at(changed);
        }
        Ok(changed)
    }
}
