//! A command that changes letters or jobs in bulk: a dry run, or the change in batches and its report.

use crate::batches::{Batches, GoOn};
use crate::left_out::{LeftOut, left_out_json, write_left_out};
use crate::not_done::NotDone;
use crate::prelude::*;

/// How many letters or jobs a dry run shows.
pub(crate) const SAMPLE: u8 = 5;

/// What a command would change.
#[derive(Default)]
pub(crate) struct Found {
    /// How many match.
    pub(crate) matching: u64,
    /// How many would change.
    pub(crate) affected: u64,
    pub(crate) left_out: Vec<LeftOut>,
    /// What would happen, as a sentence.
    pub(crate) heading: String,
    /// Some of what would change, if a dry run shows any.
    pub(crate) sample: Option<Table>,
}

/// What a command has changed.
#[derive(Default)]
pub(crate) struct Changed {
    /// What became of each job, if they were given by id.
    pub(crate) lines: Vec<String>,
    pub(crate) not_done: NotDone,
}

impl From<NotDone> for Changed {
    fn from(not_done: NotDone) -> Changed {
        Changed {
            lines: Vec::new(),
            not_done,
        }
    }
}

/// A change of letters or jobs: what it finds, how it changes that, and what it says if there is nothing.
pub(crate) struct Change<Act, Nothing> {
    pub(crate) batches: Batches,
    /// The words that make a dry run act; `None`: it acts.
    pub(crate) to_act: Option<Vec<&'static str>>,
    pub(crate) found: Found,
    /// Changes what was found, in batches.
    pub(crate) act: Act,
    pub(crate) none: Nothing,
}

impl<Act, Nothing> Change<Act, Nothing>
where
    Act: FnOnce(GoOn<'_>) -> redrive::Result<Changed>,
    Nothing: FnOnce(&mut Context<'_>) -> Result<Ending>,
{
    /// Shows what would change, or changes it until a signal arrives. The exit code is 1 if something was not changed,
    /// or if nothing was.
    pub(crate) fn run(self, cx: &mut Context<'_>) -> Result<Ending> {
        let (found, batches) = (self.found, self.batches);
        if let Some(to_act) = self.to_act {
            found.show(&batches, &to_act, cx)?;
            return match found.matching {
                0 => (self.none)(cx),
                _ => Ok(Ending::of(found.affected > 0)),
            };
        }
        let ended = batches.run(found.affected, cx, self.act)?;
        let Changed { lines, not_done } = &ended.result;
        // One that changes later, because it runs, counts too.
        let done = ended.so_far.done.max(lines.len() as u64);
        let (noun, names) = (batches.noun, format!("{}s", batches.noun));
        if cx.global.json {
            let mut skipped = left_out_json(&names, &found.left_out);
            skipped.extend(not_done.json(&names));
            json_line(cx.out, &batches.line(done, skipped, ended.so_far.audit))?;
        } else if found.matching > 0 || !not_done.0.is_empty() {
            match lines.is_empty() {
                true => writeln!(cx.out, "{}", batches.text(done))?,
                false => writeln!(cx.out, "{}", lines.join("\n"))?,
            }
            write_left_out(noun, &found.left_out, cx)?;
        }
        not_done.say(noun, batches.participle, cx);
        let ending = ended.or_stopped(Ending::of(not_done.0.is_empty()), cx)?;
        match (ending, done, found.matching) {
            (Ending::Done, 0, 0) => (self.none)(cx),
            (Ending::Done, 0, _) if found.left_out.is_empty() => cx.nothing(format!(
                "no {noun} was {}: those that matched have changed or are locked",
                batches.participle
            )),
            (Ending::Done, 0, _) => Ok(Ending::NothingMatched),
            (ending, ..) => Ok(ending),
        }
    }
}

impl Found {
    /// Letters of which all would change, and what would happen to them.
    pub(crate) fn all(letters: u64, would: &str) -> Found {
        Found {
            matching: letters,
            affected: letters,
            heading: format!("{} {would}", counted(letters, "letter")),
            ..Found::default()
        }
    }

    /// Prints the numbers. As text, and if something matches, also those left out, some of those that
    /// would change, and the command that acts.
    pub(crate) fn show(
        &self,
        Batches { noun, action, .. }: &Batches,
        to_act: &[&str],
        cx: &mut Context<'_>,
    ) -> Result<()> {
        if cx.global.json {
            let names = format!("{noun}s");
            let skipped = left_out_json(&names, &self.left_out);
            let line = json!({
                "dry_run": true, "action": action, &*names: self.affected, "matching": self.matching,
                "skipped": skipped,
            });
            return json_line(cx.out, &line);
        }
        if self.matching == 0 {
            return Ok(());
        }
        writeln!(cx.out, "{}\n", self.heading)?;
        write_left_out(noun, &self.left_out, cx)?;
        if self.affected > 0 {
            if let Some(sample) = &self.sample {
                sample.write(cx.out)?;
                writeln!(cx.out)?;
            }
            cx.propose(to_act)?;
        }
        Ok(())
    }
}
