//! Which letters a command means: by their ids, or by a queue and conditions.

use clap::Args;
use redrive::{JobId, Letters};

use super::filter::{Filter, quoted};
use crate::error::Result;

/// Letters by their ids, or by a queue and a filter.
#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct Chosen {
    /// The letters of this queue, or a condition.
    #[arg(group = "which")]
    queue: Option<String>,
    /// These letters.
    #[arg(long = "id", group = "which", value_name = "ID", num_args = 1.., value_delimiter = ',')]
    ids: Vec<JobId>,
    #[command(flatten)]
    filter: Filter,
    /// At most this many.
    #[arg(long, conflicts_with = "ids", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

impl Chosen {
    /// The letters that are meant, in whatever state.
    pub(crate) fn letters(&self) -> Result<Letters> {
        if !self.ids.is_empty() {
            // Each once: one that dies again at once is not taken a second time.
            let ids = Letters::ids(self.ids.iter().copied());
            return Ok(self.filter.narrow(&ids)?.limit(self.ids.len() as u64));
        }
        let letters = self.filter.letters(self.queue.as_deref())?;
        Ok(match self.limit {
            Some(limit) => letters.limit(limit),
            None => letters,
        })
    }

    /// The ids that were named.
    pub(crate) fn ids(&self) -> &[JobId] {
        &self.ids
    }

    /// Of so many letters that match, how many are meant.
    pub(crate) fn limited(&self, matching: u64) -> u64 {
        self.limit.map_or(matching, |limit| limit.min(matching))
    }

    /// The arguments that mean the same, for a command line to be typed.
    pub(crate) fn words(&self) -> String {
        let mut words: Vec<String> = self.queue.as_deref().map(quoted).into_iter().collect();
        if !self.ids.is_empty() {
            words.push("--id".to_owned());
            words.extend(self.ids.iter().map(ToString::to_string));
        }
        words.extend(self.filter.words());
        words.extend(self.limit.map(|limit| format!("--limit {limit}")));
        words.join(" ")
    }
}
