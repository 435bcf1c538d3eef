//! Validate: what of some letters could be redriven, found out without running a handler.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;

use crate::complaint::{Complaint, Complaints};
use crate::database::Database;
use crate::error::Result;
use crate::failure::Failure;
use crate::filter::Letters;
use crate::judge::Outcome;
use crate::letter::Letter;
use crate::payload::Payload;
use crate::run::run;

type Check = Arc<dyn Fn(&Letter) -> Result<(), String> + Send + Sync>;

/// What letters are checked by before they are redriven: functions without side effects, by kind.
///
/// They stand beside the handlers and never call them.
///
/// ```
/// use redrive::{Payload, Validators};
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Invoice { cents: i64 }
/// # impl Payload for Invoice { const KIND: &'static str = "invoice"; }
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Mail {}
/// # impl Payload for Mail { const KIND: &'static str = "mail"; }
///
/// let validators = Validators::new()
///     // The payload is one of this type.
///     .decodes::<Mail>()
///     // And it makes sense.
///     .check(|invoice: &Invoice| match invoice.cents {
///         1.. => Ok(()),
///         cents => Err(format!("{cents} cents are no amount")),
///     });
/// ```
#[derive(Clone, Default)]
pub struct Validators {
    by_kind: HashMap<String, Vec<Check>>,
    any: Vec<Check>,
}

impl Validators {
    /// None.
    pub fn new() -> Validators {
        Validators::default()
    }

    /// Checks that payloads of this kind can be decoded as its type.
    #[must_use]
    pub fn decodes<P: Payload + 'static>(self) -> Validators {
        self.kind(P::KIND, |letter| decoded::<P>(letter).map(drop))
    }

    /// Checks that payloads of this kind can be decoded, and what the function says of them.
    #[must_use]
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

    /// Checks letters of a kind as they are: payload or captured bytes, headers, error.
    #[must_use]
    pub fn kind<E, F>(mut self, kind: &str, check: F) -> Validators
    where
        E: fmt::Display,
        F: Fn(&Letter) -> Result<(), E> + Send + Sync + 'static,
    {
        let checks = self.by_kind.entry(kind.to_owned()).or_default();
        checks.push(Arc::new(move |letter| {
            check(letter).map_err(|error| error.to_string())
        }));
        self
    }

    /// Checks letters of every kind.
    #[must_use]
    pub fn any<E, F>(mut self, check: F) -> Validators
    where
        E: fmt::Display,
        F: Fn(&Letter) -> Result<(), E> + Send + Sync + 'static,
    {
        self.any.push(Arc::new(move |letter| {
            check(letter).map_err(|error| error.to_string())
        }));
        self
    }

    /// Whether there is nothing to check by.
    pub fn is_empty(&self) -> bool {
        self.by_kind.is_empty() && self.any.is_empty()
    }

    /// What there is to say about a letter.
    fn verdict(&self, letter: &Letter) -> Verdict {
        let of_kind = self.by_kind.get(&letter.kind).into_iter().flatten();
        let mut checks = of_kind.chain(&self.any).peekable();
        if checks.peek().is_none() {
            return Verdict::Unchecked;
        }
        let outcome = run(|| {
            checks
                .try_for_each(|check| check(letter))
                .map_err(Failure::reject)
        });
        match outcome {
            Outcome::Done => Verdict::Passed,
            Outcome::Failed(failure) => Verdict::Failed(failure.message().to_owned()),
            Outcome::Panicked(story) => Verdict::Failed(format!("the validator {}", story.message)),
            Outcome::Undecodable(story) | Outcome::Unhandled(story) => {
                Verdict::Failed(story.message)
            }
            Outcome::TimedOut(limit) => Verdict::Failed(format!("it took over {limit:?}")),
        }
    }
}

impl fmt::Debug for Validators {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut kinds: Vec<&String> = self.by_kind.keys().collect();
        kinds.sort_unstable();
        f.debug_struct("Validators")
            .field("kinds", &kinds)
            .field("any", &self.any.len())
            .finish()
    }
}

enum Verdict {
    Passed,
    Failed(String),
    Unchecked,
}

fn decoded<P: DeserializeOwned>(letter: &Letter) -> Result<P, String> {
    let Some(payload) = &letter.payload else {
        return Err("it was captured and is not JSON".to_owned());
    };
    serde_json::from_str(payload.get()).map_err(|error| error.to_string())
}

/// What a validation found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Validation {
    /// How many letters would pass.
    pub passed: u64,
    /// How many would not.
    pub failed: u64,
    /// How many have a kind that nothing checks.
    pub unchecked: u64,
    /// What is wrong with those that fail, what is said most first.
    pub complaints: Vec<Complaint>,
}

impl Database {
    /// Tells how many of the letters would pass the validators, and what is wrong with the others.
    ///
    /// Nothing changes and no handler runs; the validators run on the calling thread. A validator
    /// that panics fails the letter, with its message. Narrow the filter to
    /// [open](crate::LetterState::Open) letters for what a redrive would take.
    ///
    /// # Errors
    /// *Invalid* with [`Letters::after`]; when the database refuses or does not answer.
    pub fn validate(&self, which: &Letters, validators: &Validators) -> Result<Validation> {
        let mut found = Validation::default();
        let mut complaints = Complaints::default();
        self.each_page(which, |letters| {
            for letter in letters {
                match validators.verdict(letter) {
                    Verdict::Passed => found.passed += 1,
                    Verdict::Unchecked => found.unchecked += 1,
                    Verdict::Failed(why) => {
                        found.failed += 1;
                        complaints.add(letter.id, why);
                    }
                }
            }
            complaints.fold(self)
        })?;
        found.complaints = complaints.into_vec();
        Ok(found)
    }
}
