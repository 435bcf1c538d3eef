//! What `redrive` and `discard` share: letters by their ids at once, letters by a filter only
//! after a look and a yes.

use clap::Args;
use redrive::{Database, JobId, LetterCount, LetterState, Letters};
use serde_json::json;

use super::chosen::Chosen;
use super::filter::quoted;
use super::list::open_letters;
use crate::Streams;
use crate::args::Arguments;
use crate::error::Result;
use crate::progress::Progress;
use crate::render::{counted, grouped, json_line};

/// How many letters are moved between two looks at the progress.
const BATCH: u64 = 500;
/// How many letters a dry run shows.
const SAMPLE: u64 = 5;

/// Which open letters to act on, and whether to act.
#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct Choice {
    #[command(flatten)]
    chosen: Chosen,
    /// Change nothing: say how many letters match, and show a few.
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
    /// Act on all letters of the queue that match.
    #[arg(long)]
    yes: bool,
}

/// What to do with the letters.
pub(crate) enum Plan {
    /// Tell what would happen.
    DryRun,
    /// Act on these ids.
    These,
    /// Act on what matches.
    Bulk,
}

impl Choice {
    /// What the arguments ask for.
    pub(crate) fn plan(&self) -> Plan {
        match (self.ids().is_empty(), self.dry_run) {
            (_, true) => Plan::DryRun,
            (false, false) => Plan::These,
            (true, false) if self.yes => Plan::Bulk,
            (true, false) => Plan::DryRun,
        }
    }

    /// The ids that were named.
    pub(crate) fn ids(&self) -> &[JobId] {
        self.chosen.ids()
    }

    /// The open letters that are meant.
    pub(crate) fn letters(&self) -> Result<Letters> {
        Ok(self.chosen.letters()?.or_state(LetterState::Open))
    }

    /// The same, in whatever state: what acts takes only the states that it can act on.
    pub(crate) fn all(&self) -> Result<Letters> {
        self.chosen.letters()
    }

    /// How many of `matching` letters the limit allows.
    pub(crate) fn limited(&self, matching: u64) -> u64 {
        self.chosen.limited(matching)
    }

    /// Says how many letters match, shows some, and what to type to act. `affected`: how many of
    /// them the act would change.
    pub(crate) fn dry_run(
        &self,
        act: &Act<'_>,
        db: &Database,
        arguments: &Arguments,
        io: &mut Streams<'_>,
    ) -> Result<crate::Ending> {
        let count = db.count_letters(&self.letters()?)?;
        let affected = self.limited((act.affects)(&count));
        if arguments.json {
            json_line(
                io.out,
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
                io.out,
                "{matching} {verb}; {} would be {}.\n",
                grouped(affected),
                act.word
            )?;
            let sample = db.letters(&self.letters()?.limit(SAMPLE))?;
            open_letters(&sample).write(io.out)?;
            writeln!(
                io.out,
                "\nNothing was changed. To act:\n  {}",
                self.words(act, &[])
            )?;
        }
        if count.letters == 0 {
            io.say("no open letter matches");
            return Ok(crate::Ending::NothingMatched);
        }
        Ok(crate::Ending::Done)
    }

    /// The command line that acts; `more` are options of its own.
    pub(crate) fn words(&self, act: &Act<'_>, more: &[String]) -> String {
        let mut words: Vec<String> = vec!["redrive dlq".to_owned(), act.command.to_owned()];
        words.push(self.chosen.words());
        words.extend(act.why.map(|why| format!("--why {}", quoted(why))));
        words.extend(more.iter().cloned());
        if self.ids().is_empty() {
            words.push("--yes".to_owned());
        }
        words.join(" ")
    }

    /// Acts on all that matches, a batch at a time. No more letters than matched at the
    /// beginning: one that dies again meanwhile is not taken a second time for ever.
    pub(crate) fn in_bulk(
        &self,
        act: &Act<'_>,
        db: &Database,
        mut batch: impl FnMut(&Letters) -> Result<u64>,
    ) -> Result<u64> {
        let total = self.limited((act.affects)(&db.count_letters(&self.letters()?)?));
        let progress = Progress::of(act.doing, total);
        let mut changed = 0;
        while changed < total {
            let now = batch(&self.letters()?.limit(BATCH.min(total - changed)))?;
            if now == 0 {
                break;
            }
            changed += now;
            progress.at(changed);
        }
        Ok(changed)
    }
}

/// What a command does with letters, in words.
pub(crate) struct Act<'a> {
    /// The subcommand.
    pub(crate) command: &'static str,
    /// What the letters are afterwards.
    pub(crate) word: &'static str,
    /// What is being done.
    pub(crate) doing: &'static str,
    /// How many of the letters that match it changes.
    pub(crate) affects: fn(&LetterCount) -> u64,
    /// The reason that it needs.
    pub(crate) why: Option<&'a str>,
}
