//! Validation errors, grouped by masked message.

use std::collections::BTreeMap;

use crate::db::database::Database;
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
    /// The message, masked with `?` as in failure groups.
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
pub(crate) struct ValidationErrors {
    /// Errors since the last [`fold`](ValidationErrors::fold).
    said: Vec<(String, JobId)>,
    by_mask: BTreeMap<String, ValidationError>,
}

impl ValidationErrors {
    /// Adds the error of a letter.
    pub(crate) fn add(&mut self, id: JobId, said: impl Into<String>) {
        self.said.push((clip(said.into(), SAID_BYTES), id));
    }

    /// Groups the collected errors. Call it once per page. The database masks the messages,
    /// as it does for failure groups.
    pub(crate) fn fold(&mut self, db: &Database) -> Result<()> {
        if self.said.is_empty() {
            return Ok(());
        }
        let said = std::mem::take(&mut self.said);
        let texts: Vec<&str> = said.iter().map(|(text, _)| &**text).collect();
        let masks: Vec<String> = db.ask_bulk().all("mask errors", &sql::MASK, &[&texts])?;
        for (mask, (sample, id)) in masks.into_iter().zip(said) {
            self.count(mask, sample, id);
        }
        Ok(())
    }

    fn count(&mut self, mask: String, sample: String, id: JobId) {
        let is_full = self.by_mask.len() >= MAX_ERRORS && !self.by_mask.contains_key(&mask);
        let mask = if is_full { OTHERS.to_owned() } else { mask };
        let error = self
            .by_mask
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
        let mut all: Vec<ValidationError> = self.by_mask.into_values().collect();
        all.sort_by_key(|error| std::cmp::Reverse(error.letters));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_errors_share_one_entry_up_to_the_limit() {
        let mut errors = ValidationErrors::default();
        for id in 0..1000 {
            let alike = format!("no field `f{}`", id % 3);
            errors.count("no field ?".to_owned(), alike, JobId::new(id));
            errors.count(format!("different {id}"), "x".to_owned(), JobId::new(id));
        }
        let all = errors.into_vec();
        assert_eq!(all.len(), MAX_ERRORS + 1);
        assert_eq!((&*all[0].message, all[0].letters), ("no field ?", 1000));
        assert_eq!(all[0].sample, "no field `f0`");
        assert_eq!(all[0].ids.len(), NAMED);
        assert_eq!((&*all[1].message, all[1].letters), (OTHERS, 901));
    }
}
