//! Complaints: what is wrong with many letters, said once for all that are alike.

use std::collections::BTreeMap;

use crate::database::Database;
use crate::error::Result;
use crate::failure::clip;
use crate::job::JobId;
use crate::sql;

/// The longest complaint that is kept, in bytes.
const SAID_BYTES: usize = 1000;
/// How many letters of a complaint are named.
const NAMED: usize = 5;
/// How many complaints are told apart; what follows is one more.
const MOST_COMPLAINTS: usize = 100;
/// What that one says.
const OTHERS: &str = "(any other complaint)";

/// What is wrong with some letters, and with how many.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Complaint {
    /// What is wrong, with `?` in the place of numbers, ids and quoted text, as in failure groups.
    pub what: String,
    /// The same as it was said of the first letter.
    pub sample: String,
    /// How many letters it is said of.
    pub letters: u64,
    /// A few of them: the first five.
    pub ids: Vec<JobId>,
}

/// Complaints while they are collected: bounded, however many letters there are.
#[derive(Debug, Default)]
pub(crate) struct Complaints {
    /// What was said since the last [`fold`](Complaints::fold).
    said: Vec<(String, JobId)>,
    by_mask: BTreeMap<String, Complaint>,
}

impl Complaints {
    /// Adds what is wrong with a letter.
    pub(crate) fn add(&mut self, id: JobId, said: impl Into<String>) {
        self.said.push((clip(said.into(), SAID_BYTES), id));
    }

    /// Puts together what is alike; to be called once a page. The database masks the texts, so
    /// that what is alike here is alike in its failure groups.
    pub(crate) fn fold(&mut self, db: &Database) -> Result<()> {
        if self.said.is_empty() {
            return Ok(());
        }
        let said = std::mem::take(&mut self.said);
        let (masks, said) = db.call_bulk("mask complaints", move |session| {
            let texts: Vec<&str> = said.iter().map(|(text, _)| &**text).collect();
            let rows = session.query("mask complaints", &sql::MASK, &[&texts])?;
            let masks: Vec<String> = rows.iter().map(|row| row.get("masked")).collect();
            Ok((masks, said))
        })?;
        for (mask, (sample, id)) in masks.into_iter().zip(said) {
            self.count(mask, sample, id);
        }
        Ok(())
    }

    fn count(&mut self, mask: String, sample: String, id: JobId) {
        let is_full = self.by_mask.len() >= MOST_COMPLAINTS && !self.by_mask.contains_key(&mask);
        let mask = if is_full { OTHERS.to_owned() } else { mask };
        let complaint = self
            .by_mask
            .entry(mask.clone())
            .or_insert_with(|| Complaint {
                what: mask,
                sample,
                letters: 0,
                ids: Vec::new(),
            });
        complaint.letters += 1;
        if complaint.ids.len() < NAMED {
            complaint.ids.push(id);
        }
    }

    /// All of them, what is said most first.
    pub(crate) fn into_vec(self) -> Vec<Complaint> {
        let mut all: Vec<Complaint> = self.by_mask.into_values().collect();
        all.sort_by_key(|complaint| std::cmp::Reverse(complaint.letters));
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_alike_is_one_complaint_and_there_are_not_too_many() {
        let mut complaints = Complaints::default();
        for id in 0..1000 {
            let alike = format!("no field `f{}`", id % 3);
            complaints.count("no field ?".to_owned(), alike, JobId::new(id));
            complaints.count(format!("different {id}"), "x".to_owned(), JobId::new(id));
        }
        let all = complaints.into_vec();
        assert_eq!(all.len(), MOST_COMPLAINTS + 1);
        assert_eq!((&*all[0].what, all[0].letters), ("no field ?", 1000));
        assert_eq!(all[0].sample, "no field `f0`");
        assert_eq!(all[0].ids.len(), NAMED);
        assert_eq!((&*all[1].what, all[1].letters), (OTHERS, 901));
    }
}
