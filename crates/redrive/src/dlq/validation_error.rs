//! Validation errors, grouped by their messages without numbers.

use std::collections::BTreeMap;

use crate::dlq::prelude::*;

/// The longest stored message, in bytes.
const SAID_BYTES: usize = 1000;
/// The letters listed per error.
const NAMED: usize = 5;
/// The distinct errors; later ones share one entry.
const MAX_ERRORS: usize = 100;
/// The message of the shared entry.
const OTHERS: &str = "(other errors)";

/// An error that several letters share.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ValidationError {
    /// The message, with `?` for its numbers.
    pub message: String,
    /// The message of the first letter, unmasked.
    pub sample: String,
    /// The number of letters.
    pub letters: u64,
    /// The first five letters.
    pub ids: Vec<JobId>,
}

/// Collects errors in bounded memory.
#[derive(Debug, Default)]
pub(crate) struct ValidationErrors(BTreeMap<String, ValidationError>);

impl ValidationErrors {
    /// Adds the error of a letter.
    pub(crate) fn add(&mut self, id: JobId, said: impl Into<String>) {
        let sample = clip(said.into(), SAID_BYTES);
        let mask = masked(&sample);
        let is_full = self.0.len() >= MAX_ERRORS && !self.0.contains_key(&mask);
        let mask = if is_full { OTHERS.to_owned() } else { mask };
        let error = self
            .0
            .entry(mask.clone())
            .or_insert_with(|| ValidationError {
                message: mask,
                sample,
                letters: 0,
                ids: Vec::new(),
            });
        error.letters += 1;
        if error.ids.len() < NAMED {
            error.ids.push(id);
        }
    }

    /// Returns the errors, most frequent first.
    pub(crate) fn into_vec(self) -> Vec<ValidationError> {
        let mut all: Vec<ValidationError> = self.0.into_values().collect();
        all.sort_by_key(|error| std::cmp::Reverse(error.letters));
        all
    }
}

/// Replaces the numbers in a text by `?`.
fn masked(text: &str) -> String {
    let mut masked = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '0'..='9' if masked.ends_with('?') => {}
            '0'..='9' => masked.push('?'),
            other => masked.push(other),
        }
    }
    masked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_errors_share_one_entry_up_to_the_limit() {
        let mut errors = ValidationErrors::default();
        for id in 0..1000 {
            errors.add(JobId::new(id), format!("order {} is over 100", 20 + id % 3));
            let different = "x".repeat(usize::try_from(id).expect("positive"));
            errors.add(JobId::new(id), different);
        }
        let all = errors.into_vec();
        assert_eq!(all.len(), MAX_ERRORS + 1);
        let first = (&*all[0].message, &*all[0].sample, all[0].letters);
        assert_eq!(first, ("order ? is over ?", "order 20 is over 100", 1000));
        assert_eq!(all[0].ids.len(), NAMED);
        assert_eq!((&*all[1].message, all[1].letters), (OTHERS, 901));
    }
}
