//! Validation errors, grouped by their messages without numbers.

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

/// Adds the error of a letter. The most frequent errors come first.
pub(crate) fn add_error(errors: &mut Vec<ValidationError>, id: JobId, said: impl Into<String>) {
    let sample = clip(said.into(), SAID_BYTES);
    let place_of = |message: &str| errors.iter().position(|error| error.message == message);
    let mut message = masked(&sample);
    let mut place = place_of(&message);
    if place.is_none() && errors.len() >= MAX_ERRORS {
        OTHERS.clone_into(&mut message);
        place = place_of(OTHERS);
    }
    let place = place.unwrap_or(errors.len());
    if place == errors.len() {
        errors.push(ValidationError {
            message,
            sample,
            letters: 0,
            ids: Vec::new(),
        });
    }
    let error = &mut errors[place];
    error.letters += 1;
    if error.ids.len() < NAMED {
        error.ids.push(id);
    }
    errors.sort_by_key(|error| std::cmp::Reverse(error.letters));
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
        let mut all = Vec::new();
        for id in 0..1000 {
            let alike = format!("order {} is over 100", 20 + id % 3);
            add_error(&mut all, JobId::new(id), alike);
            let different = "x".repeat(usize::try_from(id).expect("positive"));
            add_error(&mut all, JobId::new(id), different);
        }
        assert_eq!(all.len(), MAX_ERRORS + 1);
        let first = (&*all[0].message, &*all[0].sample, all[0].letters);
        assert_eq!(first, ("order ? is over ?", "order 20 is over 100", 1000));
        assert_eq!(all[0].ids.len(), NAMED);
        assert_eq!((&*all[1].message, all[1].letters), (OTHERS, 901));
    }
}
