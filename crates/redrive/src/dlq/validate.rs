//! Checks which letters a redrive could run, without running a handler.

use std::fmt;
use std::sync::Arc;

use crate::dlq::letter::Letter;
use crate::dlq::prelude::*;
use crate::dlq::validation_error::{ValidationError, add_error};
use crate::job::failure::Failure;
use crate::job::headers::Headers;
use crate::job::payload::{Payload, read};
use crate::pipeline::attempt::run_handler;
use crate::pipeline::outcome::FailedBy;

type Check = Arc<dyn Fn(&Letter) -> Result<(), String> + Send + Sync>;

/// Checks to run on letters before a redrive, in their order. They have no side effects and call no
/// handler.
///
/// The [guide](crate::_guide::payloads) has an example.
#[derive(Clone, Default)]
#[must_use]
pub struct Validators(Vec<(Option<String>, Check)>);

impl Validators {
    /// Returns an empty set.
    pub fn new() -> Validators {
        Validators::default()
    }

    /// Checks that payloads of this kind decode.
    pub fn decodes<P: Payload + 'static>(self) -> Validators {
        self.check(|_: &P| Ok::<(), String>(()))
    }

    /// Checks that payloads of this kind decode and pass the function.
    pub fn check<P, E, F>(self, check: F) -> Validators
    where
        P: Payload + 'static,
        E: fmt::Display,
        F: Fn(&P) -> Result<(), E> + Send + Sync + 'static,
    {
        self.kind(P::KIND, move |letter| {
            check(&decoded::<P>(letter)?).map_err(|error| error.to_string())
        })
    }

    /// Checks whole letters of a kind, including captured bytes, headers and errors.
    pub fn kind<E, F>(self, kind: &str, check: F) -> Validators
    where
        E: fmt::Display,
        F: Fn(&Letter) -> Result<(), E> + Send + Sync + 'static,
    {
        self.with(Some(kind), check)
    }

    /// Checks letters of every kind.
    pub fn any<E, F>(self, check: F) -> Validators
    where
        E: fmt::Display,
        F: Fn(&Letter) -> Result<(), E> + Send + Sync + 'static,
    {
        self.with(None, check)
    }

    fn with<E: fmt::Display>(
        mut self,
        kind: Option<&str>,
        check: impl Fn(&Letter) -> Result<(), E> + Send + Sync + 'static,
    ) -> Validators {
        let check = move |letter: &Letter| check(letter).map_err(|error| error.to_string());
        self.0.push((kind.map(str::to_owned), Arc::new(check)));
        self
    }

    /// Returns whether the set is empty.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks one letter.
    fn verdict(&self, letter: &Letter) -> ValidationResult {
        let is_of = |kind: Option<&str>| kind.is_none_or(|kind| kind == letter.kind);
        let checks = self.0.iter().filter(|(kind, _)| is_of(kind.as_deref()));
        let mut checks = checks.map(|(_, check)| check).peekable();
        if checks.peek().is_none() {
            return ValidationResult::Unchecked;
        }
        // A check would see only the start, and a redrive leaves the letter out.
        if letter.raw_size.is_some() {
            return ValidationResult::Failed("its captured bytes exceed 16 MiB".to_owned());
        }
        let outcome = run_handler(|| {
            checks
                .try_for_each(|check| check(letter))
                .map_err(Failure::reject)
        });
        match outcome {
            Ok(()) => ValidationResult::Passed,
            Err(outcome) if outcome.by == FailedBy::Panic => {
                ValidationResult::Failed(format!("the validator {}", outcome.failure))
            }
            Err(outcome) => ValidationResult::Failed(outcome.failure.report.message),
        }
    }
}

impl fmt::Debug for Validators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = self.0.iter().map(|(kind, _)| kind);
        f.debug_list().entries(kinds).finish()
    }
}

/// The result of the checks of one letter.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ValidationResult {
    /// All checks passed.
    Passed,
    /// A check failed, with its error.
    Failed(String),
    /// There is no check for the kind of the letter.
    Unchecked,
}

fn decoded<P: Payload>(letter: &Letter) -> Result<P, String> {
    let Some(payload) = &letter.payload else {
        return Err("its captured bytes are not JSON".to_owned());
    };
    let headers = letter.headers.as_ref().map(|json| json.get());
    let headers = Headers::read(headers).map_err(|error| error.to_string())?;
    let payload = read(payload.get(), headers.payload_version());
    payload.map_err(|failure| failure.to_string())
}

/// The result of a validation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Validation {
    /// Letters that pass.
    pub passed: u64,
    /// Letters that fail.
    pub failed: u64,
    /// Letters of a kind without a check.
    pub unchecked: u64,
    /// The errors, most frequent first.
    pub errors: Vec<ValidationError>,
}

impl Dlq<'_> {
    /// Runs the validators over matching letters and counts the errors.
    ///
    /// Changes nothing and runs no handler. The validators run on the calling thread; one
    /// that panics fails the letter. Select [open](crate::dlq::LetterState::Open) letters
    /// to check what a redrive would send.
    ///
    /// # Errors
    /// *Invalid* with [`LetterFilter::after`]; otherwise if the database fails.
    pub fn validate(&self, filter: &LetterFilter, validators: &Validators) -> Result<Validation> {
        self.validate_each(filter, validators, |_, _| Ok(()))
    }

    /// Runs the validators over matching letters, as [`validate`](Dlq::validate) does, and calls
    /// `visit` with the result of each.
    ///
    /// # Errors
    /// Any error of `visit`, which ends the validation; otherwise as [`validate`](Dlq::validate).
    pub fn validate_each<E: From<Error>>(
        &self,
        filter: &LetterFilter,
        validators: &Validators,
        mut visit: impl FnMut(&Letter, &ValidationResult) -> Result<(), E>,
    ) -> Result<Validation, E> {
        let mut found = Validation::default();
        self.each_page(filter, |letters| -> Result<(), E> {
            for letter in letters {
                let result = validators.verdict(letter);
                visit(letter, &result)?;
                match result {
                    ValidationResult::Passed => found.passed += 1,
                    ValidationResult::Unchecked => found.unchecked += 1,
                    ValidationResult::Failed(why) => {
                        found.failed += 1;
                        add_error(&mut found.errors, letter.id, why);
                    }
                }
            }
            Ok(())
        })?;
        Ok(found)
    }
}
