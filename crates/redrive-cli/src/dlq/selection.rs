//! The letters that a command acts on: by id, or by queue and conditions.

use clap::Args;
use redrive::JobId;
use redrive::dlq::LetterFilter;

use super::filter::{FilterArgs, quoted};
use crate::error::Result;

/// Letters by id, or by queue and conditions.
#[derive(Args, Debug)]
#[command(next_help_heading = "Selection")]
#[group(skip)]
pub(super) struct Selection {
    /// Letters of this queue. A condition may take its place.
    #[arg(group = "which")]
    queue: Option<String>,
    #[command(flatten)]
    filter: FilterArgs,
    /// Letters with these ids.
    #[arg(long = "id", group = "which", value_name = "ID", num_args = 1.., value_delimiter = ',')]
    ids: Vec<JobId>,
    /// At most this many letters.
    #[arg(long, value_name = "N", conflicts_with = "ids", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

impl Selection {
    /// The selected letters, in any state.
    pub(super) fn letters(&self) -> Result<LetterFilter> {
        if !self.ids.is_empty() {
            // The limit keeps a letter that dies again at once from being taken twice.
            let ids = LetterFilter::new().ids(self.ids.iter().copied());
            return Ok(self.filter.narrow(ids)?.limit(self.ids.len() as u64));
        }
        let letters = self.filter.letters(self.queue.as_deref())?;
        Ok(match self.limit {
            Some(limit) => letters.limit(limit),
            None => letters,
        })
    }

    /// The first argument, which may be a queue or a condition.
    pub(super) fn queue(&self) -> Option<&str> {
        self.queue.as_deref()
    }

    /// The ids on the command line.
    pub(super) fn ids(&self) -> &[JobId] {
        &self.ids
    }

    /// How many of `matching` letters the limit allows.
    pub(super) fn limited(&self, matching: u64) -> u64 {
        self.limit.map_or(matching, |limit| limit.min(matching))
    }

    /// The same selection as arguments for a shell.
    pub(super) fn words(&self) -> String {
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
