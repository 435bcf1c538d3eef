//! A command that changes letters or jobs in bulk: a dry run, or the change in batches and its report.

use std::io::Write;

use redrive::JobId;
use redrive::dlq::{Edited, ValidationError};
use serde_json::Value;

use crate::batches::{Batches, Watched};
use crate::left_out::{LeftOut, left_out_json, write_left_out};
use crate::not_done::NotDone;
use crate::prelude::*;

/// How many letters or jobs a dry run shows.
pub(crate) const SAMPLE: u8 = 5;

/// What a command would change.
#[derive(Default)]
pub(crate) struct Found {
    /// What matches: `open letter`.
    pub(crate) noun: String,
    /// How many match.
    pub(crate) matching: u64,
    /// How many would change.
    pub(crate) affected: u64,
    pub(crate) left_out: Vec<LeftOut>,
    /// What a dry run adds to the numbers.
    pub(crate) note: String,
    /// What a dry run shows of it above the sample, and what its JSON has besides the numbers.
    pub(crate) details: Vec<u8>,
    pub(crate) more: Vec<(&'static str, Value)>,
    /// Some of what would change, if a dry run shows any.
    pub(crate) sample: Option<Table>,
}

/// What a command has changed.
#[derive(Default)]
pub(crate) struct Changed {
    /// What became of each job, if they were given by id.
    pub(crate) lines: Vec<String>,
    pub(crate) not_done: NotDone,
    /// What an edit did, whose counts the report has too.
    pub(crate) edited: Option<Edited>,
}

impl From<NotDone> for Changed {
    fn from(not_done: NotDone) -> Changed {
        Changed {
            not_done,
            ..Changed::default()
        }
    }
}

impl Found {
    /// Shows what would change, or changes it in batches until a signal arrives. Without words that make a dry run act, it
    /// acts. `none` says that nothing was found. The exit code is 1 if something was not changed, or if nothing was.
    pub(crate) fn change<E>(
        self,
        batches: Batches,
        to_act: Option<Vec<&'static str>>,
        cx: &mut Context<'_>,
        act: impl FnOnce(&Watched) -> Result<Changed, E>,
        none: impl FnOnce(&mut Context<'_>) -> Result<Ending>,
    ) -> Result<Ending>
    where
        Error: From<E>,
    {
        if let Some(to_act) = to_act {
            match cx.global.json {
                true => json_line(cx.out, &self.json(&batches))?,
                false if self.matching == 0 => {}
                false => self.show(&batches, &to_act, cx)?,
            }
            return match self.matching {
                0 => none(cx),
                _ => Ok(Ending::of(self.affected > 0)),
            };
        }
        let ended = batches.run(self.affected, cx, act)?;
        let Changed {
            lines,
            not_done,
            edited,
        } = &ended.result;
        // One that changes later, because it runs, counts too.
        let done = ended.so_far.done.max(lines.len() as u64);
        let unchanged = edited.as_ref().map_or(0, |edited| edited.unchanged);
        let refused = edited
            .as_ref()
            .map_or(&[][..], |edited| edited.refused.as_slice());
        let invalid: u64 = refused.iter().map(|error| error.letters).sum();
        let (noun, names) = (batches.noun, format!("{}s", batches.noun));
        let mut report = Vec::new();
        if cx.global.json {
            let mut skipped = left_out_json(&names, &self.left_out);
            skipped.extend(not_done.json(&names));
            let mut line = batches.line(done, skipped, ended.so_far.audit);
            if edited.is_some() {
                line["unchanged"] = unchanged.into();
                line["invalid"] = invalid.into();
                line["errors"] = refused.iter().map(|of| error_json(noun, of)).collect();
            }
            json_line(&mut report, &line)?;
        } else if self.matching > 0 || !not_done.0.is_empty() {
            let mut text = match lines.is_empty() {
                true => batches.text(done),
                false => lines.join("\n"),
            };
            for (count, name) in [(unchanged, "unchanged"), (invalid, "invalid")] {
                if count > 0 {
                    text.extend([", ", &*grouped(count), " ", name]);
                }
            }
            writeln!(report, "{text}")?;
            write_left_out(noun, &self.left_out, &mut report)?;
            print_errors(noun, refused, &mut report)?;
        }
        let written = cx.out.write_all(&report).and_then(|()| cx.out.flush());
        if written.is_err() && done > 0 {
            cx.say(batches.stopped(ended.so_far, self.affected));
        }
        written?;
        not_done.say(noun, batches.participle, cx);
        let is_all = not_done.0.is_empty() && invalid == 0;
        let ending = ended.or_stopped(Ending::of(is_all), cx)?;
        match (ending, done + unchanged, self.matching) {
            (Ending::Done, 0, 0) => none(cx),
            (Ending::Done, 0, _) if self.left_out.is_empty() => cx.nothing(format!(
                "no {noun} was {}: those that matched have changed or are locked",
                batches.participle
            )),
            (Ending::Done, 0, _) => Ok(Ending::NothingMatched),
            (ending, ..) => Ok(ending),
        }
    }

    /// Letters or jobs of which all would change that the limit allows.
    pub(crate) fn of(matching: u64, noun: impl Into<String>, selection: &Bulk) -> Found {
        Found {
            noun: noun.into(),
            matching,
            affected: selection.limited(matching),
            ..Found::default()
        }
    }

    /// The numbers as one line of JSON.
    fn json(&self, Batches { noun, action, .. }: &Batches) -> Value {
        let names = format!("{noun}s");
        let skipped = left_out_json(&names, &self.left_out);
        let mut line = json!({
            "dry_run": true, "action": action, names: self.affected, "matching": self.matching,
            "skipped": skipped,
        });
        for (name, value) in &self.more {
            line[*name] = value.clone();
        }
        line
    }

    /// Prints the numbers, those left out, details, some of those that would change, and the words that act.
    fn show(&self, batches: &Batches, to_act: &[&str], cx: &mut Context<'_>) -> Result<()> {
        let verb = match self.matching {
            1 => "matches",
            _ => "match",
        };
        writeln!(
            cx.out,
            "{} {verb}; {} would be {}{}.\n",
            counted(self.matching, &self.noun),
            grouped(self.affected),
            batches.participle,
            self.note
        )?;
        write_left_out(batches.noun, &self.left_out, cx.out)?;
        cx.out.write_all(&self.details)?;
        if self.affected == 0 {
            let participle = batches.participle;
            let nothing = format!("Nothing was changed, and nothing would be {participle}.");
            return Ok(writeln!(cx.out, "{nothing}")?);
        }
        if let Some(sample) = &self.sample {
            sample.write(cx.out)?;
            writeln!(cx.out)?;
        }
        cx.propose(to_act).map(drop)
    }
}

/// Prints the errors of letters or jobs, most frequent first.
pub(crate) fn print_errors(
    noun: &str,
    errors: &[ValidationError],
    out: &mut dyn Write,
) -> Result<()> {
    for error in errors {
        let (letters, sample) = (grouped(error.letters), one_line(&error.sample));
        writeln!(out, "\n{letters:>9}  {sample}")?;
        let ids: Vec<String> = error.ids.iter().map(ToString::to_string).collect();
        let more = match error.letters > error.ids.len() as u64 {
            true => " ...",
            false => "",
        };
        writeln!(out, "{:>9}  {noun}s {}{more}", "", ids.join(" "))?;
    }
    Ok(())
}

pub(crate) fn error_json(noun: &str, error: &ValidationError) -> Value {
    let ids: Vec<i64> = error.ids.iter().copied().map(JobId::get).collect();
    json!({
        "error": error.message, "example": error.sample, format!("{noun}s"): error.letters,
        "ids": ids,
    })
}
