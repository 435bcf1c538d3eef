//! Redrives only the letters that pass validation.

use redrive::JobId;
use redrive::dlq::{LetterFilter, Validation, ValidationResult};

use crate::dlq::validators::ValidatorArgs;
use crate::left_out::LeftOut;
use crate::prelude::*;
use crate::program::Program;

/// Whether letters are validated before they are redriven, and how.
#[derive(Args, Debug)]
#[command(next_help_heading = "Validation")]
#[group(skip)]
pub(super) struct ValidateArgs {
    /// Redrive only the letters that pass --schema, --exec, or the validators of this program.
    #[arg(long)]
    validate: bool,
    #[command(flatten)]
    validators: ValidatorArgs,
}

pub(super) struct Validated {
    /// The letters that pass.
    pub(super) passing: Vec<JobId>,
    /// Those that do not, and those without a validator.
    pub(super) rejected: Vec<JobId>,
    pub(super) validation: Validation,
}

impl ValidateArgs {
    /// Validates the letters; `None` if this was not asked for.
    pub(super) fn validated(
        &self,
        letters: &LetterFilter,
        program: &Program,
        db: &Database,
    ) -> Result<Option<Validated>> {
        if !self.validate {
            return Ok(None);
        }
        let (mut passing, mut rejected) = (Vec::new(), Vec::new());
        let visit = |id: JobId, result: &ValidationResult| {
            match result {
                ValidationResult::Passed => passing.push(id),
                ValidationResult::Failed(_) | ValidationResult::Unchecked | _ => rejected.push(id),
            }
            Ok(())
        };
        let validation = self.validators.validate(letters, visit, program, db)?;
        Ok(Some(Validated {
            passing,
            rejected,
            validation,
        }))
    }
}

impl Validated {
    /// The letters that are left out because they do not pass.
    pub(super) fn left_out(&self) -> Vec<LeftOut> {
        let Validation {
            failed, unchecked, ..
        } = self.validation;
        let failed = LeftOut::of(failed, "invalid", "failed validation");
        let include = Some(format!("`{Me} dlq edit` repairs them"));
        let failed = failed.map(|line| LeftOut { include, ..line });
        let unchecked = LeftOut::of(unchecked, "unchecked", "no validator for the kind");
        failed.into_iter().chain(unchecked).collect()
    }
}
