//! The validators that a command takes: a JSON Schema, a shell command, or those of the program.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use redrive::JobId;
use redrive::dlq::{Letter, LetterFilter, Validation, ValidationResult, Validators};
use serde_json::Value;

use crate::ndjson::{read_text, shown};
use crate::prelude::*;
use crate::program::Program;
use crate::shell::Shell;
use crate::stop::StopSignal;

/// How payloads are checked.
#[derive(Args, Debug)]
#[command(next_help_heading = "Validation")]
#[group(skip)]
pub(super) struct ValidatorArgs {
    /// JSON Schema that payloads must match; - is stdin. It cannot refer to other files.
    #[arg(long, value_name = "FILE", conflicts_with = "exec")]
    schema: Option<PathBuf>,
    /// Command that `sh -c` runs for each letter. Its stdout is discarded.
    #[arg(long, value_name = "COMMAND")]
    exec: Option<String>,
    /// Time limit of the command [default: 1m].
    #[arg(long, value_name = "TIME", value_parser = time::parse, requires = "exec", allow_hyphen_values = true)]
    deadline: Option<Duration>,
}

impl ValidatorArgs {
    /// Validates letters, and shows each result to `visit`. A signal ends its command and the validation.
    pub(super) fn validate(
        &self,
        letters: &LetterFilter,
        mut visit: impl FnMut(JobId, &ValidationResult) -> Result<()>,
        program: &Program,
        db: &Database,
    ) -> Result<Validation> {
        let shell = Shell::given(self.exec.as_deref(), self.deadline)?;
        let validators = match (shell, &self.schema) {
            (Some(shell), _) => Validators::new().any(move |letter: &Letter| {
                let checked = shell.run_letter(letter, Stdio::null);
                checked.map_err(|failure| failure.message().to_owned())
            }),
            (None, Some(file)) => Validators::new().any(schema_check(file)?),
            (None, None) if program.validators.is_empty() => {
                return Err(Error::new(
                    "no validator: use --schema FILE or --exec COMMAND",
                ));
            }
            (None, None) => program.validators.clone(),
        };
        let stop = StopSignal::listen()?;
        let dlq = db.dlq();
        dlq.validate_each(letters, &validators, |letter, result| -> Result<()> {
            stop.go_on()?;
            visit(letter.id, result)
        })
    }
}

/// A check of payloads against a JSON Schema.
fn schema_check(
    file: &Path,
) -> Result<impl Fn(&Letter) -> Result<(), String> + Send + Sync + 'static> {
    let (text, shown) = (read_text(file)?, shown(file));
    let schema: Value = serde_json::from_str(&text)
        .map_err(|error| Error::caused_by(format!("{shown} is not JSON"), error))?;
    let validator = jsonschema::validator_for(&schema)
        .map_err(|error| Error::new(format!("{shown} is not a JSON Schema: {error}")))?;
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
