//! `redrive dlq validate`: what of some letters would pass, before they are redriven.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use redrive::{Complaint, JobId, Letter, LetterState, Validation, Validators};
use serde_json::{Value, json};

use super::chosen::Chosen;
use crate::args::Arguments;
use crate::connect::{self, Patience};
use crate::duration;
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::render::{grouped, json_line, one_line};
use crate::shell::{Output, Shell};
use crate::{Ending, Streams};

/// Tell how many open letters would pass, and what is wrong with the others.
///
/// Nothing is changed, and no handler runs. Letters are checked by a JSON Schema, or by a command
/// that gets the payload (or the captured bytes) on its stdin and exits with 0 when it is good,
/// and otherwise says on stderr what is wrong. A program with validators of its own needs neither.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  redrive dlq validate orders --schema order.schema.json
  redrive dlq validate orders --kind order.placed --exec 'jq -e .currency'
  redrive dlq validate --id 42 --schema order.schema.json

The exit code is 1 when a letter fails, or none matches.")]
pub(crate) struct Validate {
    #[command(flatten)]
    chosen: Chosen,
    /// A JSON Schema that payloads have to fit; it may not refer to other files.
    #[arg(long, value_name = "FILE", conflicts_with = "exec")]
    schema: Option<PathBuf>,
    /// A command, run by `sh -c` for each letter; its stdout goes nowhere.
    #[arg(long, value_name = "COMMAND")]
    exec: Option<String>,
    /// How long a command may run.
    #[arg(long, value_parser = duration::parse, default_value = "1m", allow_hyphen_values = true)]
    deadline: Duration,
}

impl Validate {
    pub(crate) fn run(&self, arguments: &Arguments, io: &mut Streams<'_>) -> Result<Ending> {
        let (validators, _interrupt) = self.validators(io)?;
        let db = connect::database(arguments, Patience::Minute, io)?;
        let open = self.chosen.letters()?.or_state(LetterState::Open);
        let found = db.validate(&open, &validators)?;
        if found.passed + found.failed + found.unchecked == 0 {
            io.say("no open letter matches");
            return Ok(Ending::NothingMatched);
        }
        report(&found, arguments, io)?;
        Ok(match found.failed {
            0 => Ending::Done,
            _ => Ending::NothingMatched,
        })
    }

    /// What to check by.
    fn validators(&self, io: &Streams<'_>) -> Result<(Validators, Option<Interrupt>)> {
        if let Some(file) = &self.schema {
            return Ok((Validators::new().any(by_schema(file)?), None));
        }
        if let Some(command) = &self.exec {
            let deadline = self.deadline;
            let shell = Arc::new(Shell::new(command, Some(deadline)));
            let interrupt = Interrupt::of(&shell)?;
            let check = move |letter: &Letter| {
                let checked = shell.handle_letter(letter, Output::Nowhere, deadline);
                checked.map_err(|failure| failure.message().to_owned())
            };
            return Ok((Validators::new().any(check), Some(interrupt)));
        }
        if io.program.validators.is_empty() {
            return Err(Error::new(
                "nothing to check by: give --schema FILE or --exec COMMAND",
            ));
        }
        Ok((io.program.validators.clone(), None))
    }
}

/// A check of payloads by a schema.
fn by_schema(
    file: &Path,
) -> Result<impl Fn(&Letter) -> Result<(), String> + Send + Sync + 'static> {
    let shown = file.display();
    let text = fs::read_to_string(file)
        .map_err(|error| Error::caused_by(format!("could not read `{shown}`"), error))?;
    let schema: Value = serde_json::from_str(&text)
        .map_err(|error| Error::caused_by(format!("`{shown}` is not JSON"), error))?;
    let validator = jsonschema::validator_for(&schema)
        .map_err(|error| Error::new(format!("`{shown}` is not a JSON Schema: {error}")))?;
    Ok(move |letter: &Letter| {
        let Some(payload) = &letter.payload else {
            return Err("it was captured and is not JSON".to_owned());
        };
        let payload: Value =
            serde_json::from_str(payload.get()).map_err(|error| error.to_string())?;
        let mut errors = validator.iter_errors(&payload);
        // One is enough; without the value, so that the same fault reads the same in all letters.
        match errors.next() {
            None => Ok(()),
            Some(error) => Err(match error.instance_path().as_str() {
                "" => error.masked().to_string(),
                path => format!("{path}: {}", error.masked()),
            }),
        }
    })
}

fn report(found: &Validation, arguments: &Arguments, io: &mut Streams<'_>) -> Result<()> {
    if arguments.json {
        return json_line(
            io.out,
            &json!({
                "passed": found.passed, "failed": found.failed, "unchecked": found.unchecked,
                "complaints": found.complaints.iter().map(in_json).collect::<Vec<_>>(),
            }),
        );
    }
    let fails = if found.failed == 1 { "fails" } else { "fail" };
    let mut told = vec![
        format!("{} would pass", grouped(found.passed)),
        format!("{} {fails}", grouped(found.failed)),
    ];
    if found.unchecked > 0 {
        let unchecked = grouped(found.unchecked);
        told.push(format!("{unchecked} of a kind that nothing checks"));
    }
    writeln!(io.out, "{}", told.join(", "))?;
    complaints(&found.complaints, io)
}

/// Writes complaints for people, what is said most first.
pub(super) fn complaints(complaints: &[Complaint], io: &mut Streams<'_>) -> Result<()> {
    for complaint in complaints {
        writeln!(
            io.out,
            "\n{:>9}  {}",
            grouped(complaint.letters),
            one_line(&complaint.sample)
        )?;
        let ids: Vec<String> = complaint.ids.iter().map(ToString::to_string).collect();
        let more = match complaint.letters > complaint.ids.len() as u64 {
            true => " ...",
            false => "",
        };
        writeln!(io.out, "{:>9}  letters {}{more}", "", ids.join(" "))?;
    }
    Ok(())
}

/// A complaint for programs.
pub(super) fn in_json(complaint: &Complaint) -> Value {
    let ids: Vec<i64> = complaint.ids.iter().copied().map(JobId::get).collect();
    json!({
        "what": complaint.what, "sample": complaint.sample, "letters": complaint.letters, "ids": ids,
    })
}
