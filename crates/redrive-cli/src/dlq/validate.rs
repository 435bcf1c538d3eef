//! `redrive dlq validate`: checks payloads before they are redriven.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::{ArgGroup, Args};
use redrive::JobId;
use redrive::dlq::{Letter, LetterState, Validation, ValidationError, Validators};
use serde_json::{Value, json};

use super::none_matched::{NoneMatched, list_command, words};
use super::selection::Selection;
use crate::context::{Context, Ending};
use crate::error::{Error, Result};
use crate::shell::{Interrupt, Shell, Stdout};
use crate::terminal::{grouped, json_line, one_line};
use crate::time;

/// Check open letters with a JSON Schema or a command
///
/// Prints how many letters pass, and the errors of those that fail. Nothing is changed and no
/// handler runs. The command gets the payload, or the captured bytes, on stdin. It must exit with 0
/// if they are valid, and otherwise print the error to stderr. A program with its own validators
/// uses them by default.
#[derive(Args, Debug)]
#[command(
    group(ArgGroup::new("which")),
    override_usage = "redrive dlq validate [QUEUE | --id ID...] [CONDITION...] [OPTIONS]",
    before_help = "\
Examples:
  redrive dlq validate orders --schema order.schema.json
  redrive dlq validate orders --kind order.placed --exec 'jq -e .currency'
  redrive dlq validate --id 42 --schema order.schema.json
",
    after_help = "The exit code is 1 if a letter fails or none matches."
)]
pub(super) struct Validate {
    #[command(flatten)]
    selection: Selection,
    /// JSON Schema that payloads must match. It cannot refer to other files.
    #[arg(
        long,
        help_heading = "Action",
        value_name = "FILE",
        conflicts_with = "exec"
    )]
    schema: Option<PathBuf>,
    /// Command that `sh -c` runs for each letter. Its stdout is discarded.
    #[arg(long, help_heading = "Action", value_name = "COMMAND")]
    exec: Option<String>,
    /// Time limit of the command.
    #[arg(long, help_heading = "Action", value_name = "TIME", value_parser = time::parse, default_value = "1m", allow_hyphen_values = true)]
    deadline: Duration,
}

impl Validate {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let (validators, _interrupt) = self.validators(cx)?;
        let db = cx.database()?;
        let open = self.selection.letters()?.or_state(LetterState::Open);
        let validation = db.dlq().validate(&open, &validators)?;
        if validation.passed + validation.failed + validation.unchecked == 0 {
            let states = open.named_states().unwrap_or_default();
            let none = NoneMatched {
                queue: self.selection.queue(),
                filter: &open,
                states: &states,
                what: format!("no {} letter matches", words(&states)),
                by_id: "validate --id",
                quarantined: &|conditions| list_command(conditions, LetterState::Quarantined),
            };
            return none.say(&db, cx);
        }
        report(&validation, cx)?;
        Ok(match validation.failed {
            0 => Ending::Done,
            _ => Ending::NothingMatched,
        })
    }

    fn validators(&self, cx: &Context<'_>) -> Result<(Validators, Option<Interrupt>)> {
        if let Some(file) = &self.schema {
            return Ok((Validators::new().any(schema_check(file)?), None));
        }
        if let Some(command) = &self.exec {
            let deadline = self.deadline;
            let shell = Arc::new(Shell::new(command, Some(deadline)));
            let interrupt = Interrupt::of(Some(&shell), || ())?;
            let check = move |letter: &Letter| {
                let checked = shell.run_letter(letter, Stdout::Null, deadline);
                checked.map_err(|failure| failure.message().to_owned())
            };
            return Ok((Validators::new().any(check), Some(interrupt)));
        }
        if cx.registry.validators.is_empty() {
            return Err(Error::new(
                "no validator: use --schema FILE or --exec COMMAND",
            ));
        }
        Ok((cx.registry.validators.clone(), None))
    }
}

/// A check of payloads against a JSON Schema.
fn schema_check(
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
            return Err("the captured bytes are not JSON".to_owned());
        };
        let payload: Value =
            serde_json::from_str(payload.get()).map_err(|error| error.to_string())?;
        // Only the first error, without the value: equal faults then read the same in all letters.
        match validator.iter_errors(&payload).next() {
            None => Ok(()),
            Some(error) => Err(match error.instance_path().as_str() {
                "" => error.masked().to_string(),
                path => format!("{path}: {}", error.masked()),
            }),
        }
    })
}

fn report(validation: &Validation, cx: &mut Context<'_>) -> Result<()> {
    if cx.global.json {
        return json_line(
            cx.out,
            &json!({
                "passed": validation.passed,
                "failed": validation.failed,
                "unchecked": validation.unchecked,
                "errors": validation.errors.iter().map(error_json).collect::<Vec<_>>(),
            }),
        );
    }
    let verb = if validation.failed == 1 {
        "fails"
    } else {
        "fail"
    };
    let mut counts = vec![
        format!("{} would pass", grouped(validation.passed)),
        format!("{} {verb}", grouped(validation.failed)),
    ];
    if validation.unchecked > 0 {
        let unchecked = grouped(validation.unchecked);
        counts.push(format!("{unchecked} of a kind without a validator"));
    }
    writeln!(cx.out, "{}", counts.join(", "))?;
    print_errors(&validation.errors, cx)
}

/// Prints validation errors, most frequent first.
pub(super) fn print_errors(errors: &[ValidationError], cx: &mut Context<'_>) -> Result<()> {
    for error in errors {
        writeln!(
            cx.out,
            "\n{:>9}  {}",
            grouped(error.letters),
            one_line(&error.sample)
        )?;
        let ids: Vec<String> = error.ids.iter().map(ToString::to_string).collect();
        let more = match error.letters > error.ids.len() as u64 {
            true => " ...",
            false => "",
        };
        writeln!(cx.out, "{:>9}  letters {}{more}", "", ids.join(" "))?;
    }
    Ok(())
}

/// A validation error as JSON.
pub(super) fn error_json(error: &ValidationError) -> Value {
    let ids: Vec<i64> = error.ids.iter().copied().map(JobId::get).collect();
    json!({
        "error": error.message, "sample": error.sample, "letters": error.letters, "ids": ids,
    })
}
