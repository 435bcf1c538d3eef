//! Redrive: letters back into the queue, as jobs with the same id and a fresh budget.
//!
//! One statement a batch inserts the jobs and changes the letters, so there is no moment in which
//! a job is in both places or in neither, and two operators at once never make two jobs of one
//! letter.

use std::collections::HashSet;
use std::time::SystemTime;

use crate::act::Act;
use crate::database::Database;
use crate::error::Result;
use crate::filter::Letters;
use crate::job::JobId;
use crate::letter::LETTERS_TIMEOUT;
use crate::session::Parameter;
use crate::sql::{self, Sql};

/// How many letters one statement moves.
const BATCH: u64 = 500;

/// What a redrive did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Redriven {
    /// The letters that are jobs again.
    pub redriven: Vec<JobId>,
    /// Of the ids that were asked for, those that are not: no such letter, not open, without a
    /// JSON payload, or in the hands of another operator right now.
    pub skipped: Vec<JobId>,
}

impl Database {
    /// Sends open letters back into their queues, the oldest death first.
    ///
    /// Each keeps its id, its history and its priority, and gets all its attempts again. It stops
    /// when nothing is left that matched when it began, or at the limit: a letter that dies again
    /// meanwhile is not taken again. Interrupted, what was redriven is redriven and the rest is
    /// not: call again.
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn redrive(&self, which: &Letters, act: &Act) -> Result<Redriven> {
        _ = act.by();
        let redriven = self.in_batches("redrive letters", &sql::REDRIVE, which, None)?;
        let done: HashSet<i64> = redriven.iter().map(|id| id.get()).collect();
        let asked = which.asked_ids().iter();
        let skipped = asked
            .filter(|id| !done.contains(id))
            .map(|id| JobId::new(*id))
            .collect();
        Ok(Redriven { redriven, skipped })
    }

    /// Runs a statement on open letters, a batch at a time, until nothing matches any more.
    pub(crate) fn in_batches(
        &self,
        doing: &'static str,
        sql: &'static Sql,
        which: &Letters,
        why: Option<&str>,
    ) -> Result<Vec<JobId>> {
        which.refuse_after()?;
        let mut left = which.limit.unwrap_or(u64::MAX);
        let mut changed = Vec::new();
        let mut as_of: Option<SystemTime> = None;
        while left > 0 {
            let limit = i64::try_from(left.min(BATCH)).unwrap_or(i64::MAX);
            let filter = which.filter()?;
            let why = why.map(str::to_owned);
            let (ids, moment) = self.call_within(doing, LETTERS_TIMEOUT, move |session| {
                let mut parameters: Vec<Parameter<'_>> = vec![&filter, &as_of, &limit];
                if why.is_some() {
                    parameters.push(&why);
                }
                let rows = session.query(doing, sql, &parameters)?;
                let ids: Vec<JobId> = rows.iter().map(|row| JobId::new(row.get("id"))).collect();
                Ok((ids, rows.first().map(|row| row.get("as_of"))))
            })?;
            if ids.is_empty() {
                break;
            }
            as_of = moment;
            left -= ids.len() as u64;
            changed.extend(ids);
        }
        Ok(changed)
    }
}
