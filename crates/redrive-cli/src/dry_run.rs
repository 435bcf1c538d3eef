//! A command that only shows what it would change.

use redrive::Database;
use redrive::dlq::{Letter, LetterFilter};
use serde_json::{Value, json};

use crate::context::{Context, Ending};
use crate::error::Result;
use crate::left_out::{LeftOut, left_out_json, write_left_out};
use crate::terminal::Table;

/// How many letters or jobs are shown.
pub(crate) const SAMPLE: u64 = 5;

/// Returns the first letters that a command would change, in the order in which it takes them: that of the ids.
pub(crate) fn first_letters(
    db: &Database,
    filter: &LetterFilter,
    affected: u64,
) -> Result<Vec<Letter>> {
    let mut letters = Vec::new();
    let sample = filter.clone().limit(SAMPLE.min(affected));
    db.dlq().for_each(&sample, |letter| -> Result<()> {
        letters.push(letter.clone());
        Ok(())
    })?;
    Ok(letters)
}

/// What a command would change.
pub(crate) struct DryRun<'a> {
    /// `letter` or `job`.
    pub(crate) noun: &'static str,
    /// The command.
    pub(crate) action: &'static str,
    /// How many would change.
    pub(crate) affected: u64,
    /// How many match.
    pub(crate) matching: u64,
    pub(crate) left_out: &'a [LeftOut],
    /// The words that make the command act.
    pub(crate) to_act: Vec<&'static str>,
}

impl DryRun<'_> {
    /// A command that would change so many letters, and leave none out.
    pub(crate) fn of_letters(
        action: &'static str,
        affected: u64,
        to_act: Vec<&'static str>,
    ) -> Self {
        DryRun {
            noun: "letter",
            action,
            affected,
            matching: affected,
            left_out: &[],
            to_act,
        }
    }

    pub(crate) fn json(&self) -> Value {
        let name = format!("{}s", self.noun);
        json!({
            "dry_run": true, "action": self.action, &*name: self.affected,
            "matching": self.matching, "skipped": left_out_json(&name, self.left_out),
        })
    }

    /// Prints the numbers. As text, and if something matches, also those left out, some of those that
    /// would change, and the command that acts.
    pub(crate) fn show(
        &self,
        heading: &str,
        sample: impl FnOnce() -> Result<Option<Table>>,
        cx: &mut Context<'_>,
    ) -> Result<Ending> {
        if cx.global.json {
            return cx.json(&self.json());
        }
        if self.matching == 0 {
            return Ok(Ending::Done);
        }
        writeln!(cx.out, "{heading}\n")?;
        write_left_out(self.noun, self.left_out, cx)?;
        if self.affected > 0 {
            if let Some(sample) = sample()? {
                sample.write(cx.out)?;
                writeln!(cx.out)?;
            }
            cx.propose(&self.to_act)?;
        }
        Ok(Ending::Done)
    }
}
