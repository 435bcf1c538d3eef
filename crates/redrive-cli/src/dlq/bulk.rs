//! Shared by `redrive`, `discard` and `reopen`: letters by id at once, letters by condition after
//! `--yes`.

use clap::Args;
use redrive::dlq::{LetterCount, LetterFilter, LetterState};
use redrive::{Database, JobId};
use serde_json::json;

use super::filter::quoted;
use super::left_out::{LeftOut, left_out_json, matching, write_left_out};
use super::letter_table::letter_table;
use super::none_matched::words;
use super::selection::Selection;
use crate::context::{Context, Ending};
use crate::error::{Error, Result};
use crate::terminal::{grouped, json_line};

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

/// The error of an action that needs a reason.
pub(super) fn needs_reason(why: &str) -> Error {
    Error::new(format!("{why} needs --reason TEXT"))
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
    /// Reads the first argument as the id of a letter if there is such a letter and no such queue.
    pub(super) fn resolve(&self, db: &Database) -> Result<()> {
        self.selection.resolve(db)
    }

    pub(super) fn plan(&self) -> BulkPlan {
        match (self.ids().is_empty(), self.dry_run) {
            (_, true) => BulkPlan::DryRun,
            (false, false) => BulkPlan::Ids,
            (true, false) if self.yes => BulkPlan::Matching,
            (true, false) => BulkPlan::DryRun,
        }
    }

    /// Fails if the action needs a reason, has none, and is not a dry run.
    pub(super) fn check_reason(&self, why: &str, reason: Option<&str>) -> Result<()> {
        match (self.plan(), reason) {
            (BulkPlan::Ids | BulkPlan::Matching, None) => Err(needs_reason(why)),
            (BulkPlan::DryRun, _) | (_, Some(_)) => Ok(()),
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

    /// The states from which the action takes the selected letters: those that the conditions
    /// name, the first of `takes` by default, or all of them for letters given by id.
    pub(super) fn states(&self, takes: &[LetterState]) -> Result<Vec<LetterState>> {
        Ok(match self.selection.letters()?.named_states() {
            Some(named) => named
                .into_iter()
                .filter(|state| takes.contains(state))
                .collect(),
            None if self.ids().is_empty() => takes.iter().take(1).copied().collect(),
            None => takes.to_vec(),
        })
    }

    /// The selected letters that the action takes; `None` if the conditions exclude them all.
    pub(super) fn taken(&self, takes: &[LetterState]) -> Result<Option<LetterFilter>> {
        let states = self.states(takes)?;
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
        takes: &[LetterState],
        db: &Database,
        cx: &mut Context<'_>,
    ) -> Result<Option<Ending>> {
        let taken = self.taken(takes)?;
        let count = match &taken {
            Some(taken) => db.dlq().count(taken)?,
            None => LetterCount::default(),
        };
        let affected = self.limited((action.affects)(&count));
        let left_out = self.left_out(takes, db)?;
        if cx.global.json {
            json_line(
                cx.out,
                &json!({
                    "dry_run": true,
                    "action": action.command,
                    "letters": affected,
                    "matching": count.letters,
                    "skipped": left_out_json("letters", &left_out),
                }),
            )?;
        } else if let Some(taken) = taken
            && count.letters > 0
        {
            writeln!(
                cx.out,
                "{}; {} would be {}.\n",
                matching(count.letters, &words(&self.states(takes)?)),
                grouped(affected),
                action.participle
            )?;
            write_left_out("letter", &left_out, cx.out)?;
            let sample = db.dlq().list(&taken.limit(SAMPLE))?;
            letter_table(&sample).write(cx.out)?;
            writeln!(cx.out)?;
            cx.propose(&self.command_line(action, &[]))?;
        }
        Ok(match count.letters {
            0 => None,
            _ => Some(Ending::Done),
        })
    }

    /// The matching letters that the action leaves out because of their state.
    fn left_out(&self, takes: &[LetterState], db: &Database) -> Result<Vec<LeftOut>> {
        let letters = self.selection.letters()?;
        let states = self.states(takes)?;
        let candidates = letters.named_states().unwrap_or_else(|| takes.to_vec());
        let mut lines = Vec::new();
        for state in candidates {
            if states.contains(&state) {
                continue;
            }
            let letters = db.dlq().count(&letters.clone().state(state))?.letters;
            if letters == 0 {
                continue;
            }
            let include = takes
                .contains(&state)
                .then(|| "the condition state=open,quarantined includes them".to_owned());
            lines.push(LeftOut {
                count: letters,
                reason: state.as_str(),
                state: Some(state.as_str()),
                because: state.to_string(),
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
}
