//! `redrive dlq validate`: checks payloads before they are redriven.

use redrive::JobId;
use redrive::dlq::{LetterState, Validation, ValidationResult};
use serde_json::Value;

use super::none_matched::none_of;
use super::validators::ValidatorArgs;
use crate::bulk::{error_json, print_errors};
use crate::not_done::{NotDone, locked};
use crate::prelude::*;

/// Check open letters with a JSON Schema or a command
///
/// Prints how many letters pass, and the errors of those that fail. Nothing is changed and no
/// handler runs. The command gets the payload, or the captured bytes, on stdin. It must exit with 0
/// if they are valid, and otherwise print the error to stderr. A program with its own validators
/// uses them by default.
#[derive(Args, Debug)]
#[command(
    before_help = "\
Examples:
  redrive dlq validate orders --schema order.schema.json
  redrive dlq validate orders kind=order.placed --exec 'jq -e .currency'
  redrive dlq validate 42 --schema order.schema.json
  redrive dlq validate orders --schema order.schema.json --failing \\
    | xargs -r redrive dlq discard --reason 'cannot be repaired'
",
    after_help = "\
The exit code is 1 if a letter fails or none matches; with --failing, if no letter
fails. It prints the counts to stderr. `dlq redrive --validate` sends those that pass."
)]
pub(super) struct Validate {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    validators: ValidatorArgs,
    /// List the ids of the letters that fail, one per line.
    #[arg(long, help_heading = "Output")]
    failing: bool,
}

impl Validate {
    pub(super) fn run(&self, cx: &mut Context<'_>) -> Result<Ending> {
        let db = cx.database()?;
        let open = self.selection.letters()?.or_state(LetterState::Open);
        let mut unseen = self.selection.ids();
        let is_json = cx.global.json;
        let out = &mut *cx.out;
        let visit = |id: JobId, result: &ValidationResult| -> Result<()> {
            unseen.retain(|other| *other != id);
            match result {
                ValidationResult::Failed(error) if self.failing && is_json => {
                    json_line(out, &json!({"id": id.get(), "error": error}))
                }
                ValidationResult::Failed(_) if self.failing => Ok(writeln!(out, "{id}")?),
                ValidationResult::Passed
                | ValidationResult::Failed(_)
                | ValidationResult::Unchecked
                | _ => Ok(()),
            }
        };
        let validation = self.validators.validate(&open, visit, cx.program, &db)?;
        let states = open.named_states().unwrap_or_default();
        let checked = validation.passed + validation.failed + validation.unchecked;
        if checked == 0 {
            return none_of(&states, &self.selection, &open, None, cx);
        }
        let unseen = NotDone::letters(&unseen, &states, |_| locked(), &db);
        unseen.say("letter", "checked", cx);
        if self.failing {
            cx.out.flush()?;
            cx.say(counts(&validation));
            return Ok(Ending::of(validation.failed > 0));
        }
        let errors = validation.errors.iter();
        let errors: Vec<Value> = errors.map(|error| error_json("letter", error)).collect();
        let line = object!(validation => passed, failed, unchecked, errors = errors);
        cx.print(&line, counts(&validation))?;
        if !cx.global.json {
            print_errors("letter", &validation.errors, cx.out)?;
        }
        Ok(Ending::of(validation.failed == 0 && unseen.0.is_empty()))
    }
}

/// How many letters pass, fail and have no validator.
fn counts(validation: &Validation) -> String {
    let verb = match validation.failed {
        1 => "fails",
        _ => "fail",
    };
    let mut counts = vec![
        format!("{} would pass", grouped(validation.passed)),
        format!("{} {verb}", grouped(validation.failed)),
    ];
    if validation.unchecked > 0 {
        let unchecked = grouped(validation.unchecked);
        counts.push(format!("{unchecked} of a kind without a validator"));
    }
    counts.join(", ")
}
