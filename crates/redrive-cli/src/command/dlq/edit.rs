//! `redrive dlq edit`: new payloads for letters; what they held is kept.

use std::fs;
use std::io::{self, Read as _};

use clap::{ArgGroup, Args};
use redrive::{Database, EditPreview, Edited, JobId, Letters, Previewed};
use serde_json::json;

use super::chosen::Chosen;
use super::validate::{complaints, in_json};
use crate::args::Arguments;
use crate::connect::{self, Patience};
use crate::diff::diff;
use crate::error::{Error, Result};
use crate::person;
use crate::render::{Looks, counted, grouped, json_line, pretty};
use crate::{Ending, Streams};

/// How many letters a dry run shows the difference of.
const SHOWN: u64 = 5;
/// How many letters that cannot be edited a dry run names.
const NAMED: u64 = 5;

/// Change the payload of open and quarantined letters; what they held is kept, with who and why.
///
/// Letters that are named by --id are changed at once. For a whole queue, the default is a dry run
/// that shows the differences; --yes makes it so. Two editors at once lose nothing of each other:
/// a patch is applied to what the letter holds at that moment.
#[derive(Args, Debug)]
#[command(
    group(ArgGroup::new("which").required(true)),
    group(ArgGroup::new("how").required(true)),
    after_help = "\
Examples:
  redrive dlq edit orders --kind order.placed --merge '{\"currency\": \"EUR\"}'
  redrive dlq edit orders --merge '{\"currency\": \"EUR\"}' --why 'bug 812' --yes
  redrive dlq edit --id 42 --patch '[{\"op\": \"remove\", \"path\": \"/items/3\"}]'
  redrive dlq edit --id 42 --set @fixed.json --why 'it was cut off'
  redrive dlq edit --id 42 --undo

The exit code is 1 when a letter could not be changed, or none matches."
)]
pub(crate) struct Edit {
    #[command(flatten)]
    chosen: Chosen,
    /// A JSON Patch (RFC 6902); @FILE reads it from a file, @- from stdin.
    #[arg(long, value_name = "JSON", group = "how", allow_hyphen_values = true)]
    patch: Option<String>,
    /// A merge patch (RFC 7386): members to be set, those with null to be taken out.
    #[arg(long, value_name = "JSON", group = "how", allow_hyphen_values = true)]
    merge: Option<String>,
    /// A whole payload; also for captured bytes that are not JSON.
    #[arg(long, value_name = "JSON", group = "how", allow_hyphen_values = true)]
    set: Option<String>,
    /// Give the letters back what they held before their last edit. That is an edit too.
    #[arg(long, group = "how", conflicts_with = "queue")]
    undo: bool,
    /// Give the letters back what they held as of this version; 0 is what died.
    #[arg(long, value_name = "VERSION", group = "how", conflicts_with = "queue")]
    restore: Option<u32>,
    /// Why, for the story of the letters and the audit.
    #[arg(long, value_name = "TEXT")]
    why: Option<String>,
    /// Change nothing: show what would change.
    #[arg(long, conflicts_with_all = ["yes", "undo", "restore"])]
    dry_run: bool,
    /// Change all letters of the queue that match.
    #[arg(long)]
    yes: bool,
}

impl Edit {
    pub(crate) fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let Some(edit) = self.edit()? else {
            let db = connect::database(arguments, Patience::Minute, io)?;
            return self.restore(&db, arguments, io);
        };
        let db = connect::database(arguments, Patience::Minute, io)?;
        let letters = self.chosen.letters()?;
        if self.dry_run || (self.chosen.ids().is_empty() && !self.yes) {
            return self.dry_run(&letters, &edit, &db, arguments, io);
        }
        let done = db.edit(&letters, &edit, &person::act(self.why.as_deref()))?;
        report(&done, arguments, io)
    }

    /// The edit that is asked for; `None`: an old version.
    fn edit(&self) -> Result<Option<redrive::Edit>> {
        Ok(match (&self.patch, &self.merge, &self.set) {
            (Some(patch), ..) => Some(redrive::Edit::patch(&text(patch)?)?),
            (_, Some(merge), _) => Some(redrive::Edit::merge(&text(merge)?)?),
            (.., Some(set)) => Some(redrive::Edit::set(text(set)?.trim())?),
            (None, None, None) => None,
        })
    }

    fn restore(
        &self,
        db: &Database,
        arguments: &Arguments,
        io: &mut Streams<'_>,
    ) -> Result<Ending> {
        let act = person::act(self.why.as_deref());
        let mut ending = Ending::Done;
        for id in self.chosen.ids() {
            match db.restore_version(*id, self.restore, &act) {
                Ok(version) if arguments.json => {
                    json_line(io.out, &json!({ "id": id.get(), "version": version }))?;
                }
                Ok(version) => writeln!(
                    io.out,
                    "letter {id} is what it was; that is its version {version}"
                )?,
                Err(error) if error.is_invalid() => {
                    io.say(Error::from(error).told());
                    ending = Ending::NothingMatched;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(ending)
    }

    fn dry_run(
        &self,
        letters: &Letters,
        edit: &redrive::Edit,
        db: &Database,
        arguments: &Arguments,
        io: &mut Streams<'_>,
    ) -> Result<Ending> {
        let (mut changed, mut unchanged, mut refused) = (0_u64, 0_u64, 0_u64);
        db.preview_edit(letters, edit, |preview| -> Result<()> {
            match &preview.after {
                Previewed::Changed(after) => {
                    changed += 1;
                    if arguments.json {
                        json_line(
                            io.out,
                            &json!({ "id": preview.id.get(), "before": preview.before, "after": after }),
                        )?;
                    } else if changed <= SHOWN {
                        show(preview, after.get(), io)?;
                    }
                }
                Previewed::Unchanged => unchanged += 1,
                Previewed::Refused(why) => {
                    refused += 1;
                    if arguments.json {
                        json_line(io.out, &json!({ "id": preview.id.get(), "refused": why }))?;
                    } else if refused <= NAMED {
                        io.say(format!("letter {} cannot be edited: {why}", preview.id));
                    }
                }
            }
            Ok(())
        })?;
        if changed + unchanged + refused == 0 {
            io.say("no open or quarantined letter matches");
            return Ok(Ending::NothingMatched);
        }
        if !arguments.json {
            if changed > SHOWN {
                writeln!(io.out, "... and {} more.\n", grouped(changed - SHOWN))?;
            }
            writeln!(
                io.out,
                "{} would be edited, {} would stay the same, {} cannot be.\n\
                 Nothing was changed. To act, repeat the command {}.",
                counted(changed, "letter"),
                grouped(unchanged),
                grouped(refused),
                match self.chosen.ids().is_empty() {
                    true => "with --yes",
                    false => "without --dry-run",
                }
            )?;
        }
        Ok(match refused {
            0 => Ending::Done,
            _ => Ending::NothingMatched,
        })
    }
}

/// Shows what would change in a letter.
fn show(preview: &EditPreview, after: &str, io: &mut Streams<'_>) -> Result<()> {
    let looks = Looks::of_stdout();
    let heading = format!("letter {}:", preview.id);
    writeln!(io.out, "{}", looks.heading(&heading))?;
    match &preview.before {
        Some(before) => diff(io.out, looks, before.get(), after)?,
        None => {
            for line in pretty(after).lines() {
                writeln!(io.out, "{}", looks.added(&format!("  + {line}")))?;
            }
        }
    }
    Ok(writeln!(io.out)?)
}

fn report(done: &Edited, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
    let refused: u64 = done.refused.iter().map(|complaint| complaint.letters).sum();
    if arguments.json {
        let skipped: Vec<i64> = done.skipped.iter().copied().map(JobId::get).collect();
        json_line(
            io.out,
            &json!({
                "edited": done.edited.len(), "unchanged": done.unchanged, "refused": refused,
                "complaints": done.refused.iter().map(in_json).collect::<Vec<_>>(),
                "skipped": skipped,
            }),
        )?;
    } else {
        let edited = counted(done.edited.len() as u64, "letter");
        let mut told = vec![format!("{edited} edited")];
        for (count, what) in [(done.unchanged, "the same already"), (refused, "refused")] {
            if count > 0 {
                told.push(format!("{} {what}", grouped(count)));
            }
        }
        writeln!(io.out, "{}", told.join(", "))?;
        complaints(&done.refused, io)?;
        for id in &done.skipped {
            io.say(format!(
                "letter {id} is not edited: it is neither open nor quarantined"
            ));
        }
    }
    let did_nothing = done.edited.is_empty() && done.unchanged == 0;
    Ok(
        match refused > 0 || !done.skipped.is_empty() || did_nothing {
            true => Ending::NothingMatched,
            false => Ending::Done,
        },
    )
}

/// The text of an argument, or of the file that it names.
fn text(argument: &str) -> Result<String> {
    let unreadable =
        |error| Error::caused_by(format!("could not read `{}`", &argument[1..]), error);
    match argument {
        "@-" => {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text).map_err(unreadable)?;
            Ok(text)
        }
        file if file.starts_with('@') => fs::read_to_string(&file[1..]).map_err(unreadable),
        json => Ok(json.to_owned()),
    }
}
