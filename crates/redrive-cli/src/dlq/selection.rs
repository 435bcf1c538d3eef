//! The letters that a command acts on: by id, or by queue and conditions.

use std::cell::OnceCell;
use std::slice;

use clap::Args;
use redrive::dlq::LetterFilter;
use redrive::{Database, JobId};

use super::filter::{FilterArgs, is_condition, quoted};
use crate::error::Result;

/// Letters by id, or by queue and conditions.
#[derive(Args, Debug)]
#[command(next_help_heading = "Selection")]
#[group(skip)]
pub(super) struct Selection {
    /// Letters of this queue. A condition or the id of a letter may take its place.
    #[arg(group = "which")]
    queue: Option<String>,
    /// The letter whose id takes the place of the queue.
    #[arg(skip)]
    named: OnceCell<JobId>,
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
    /// Reads the first argument as the id of a letter if there is such a letter and no such queue.
    pub(super) fn resolve(&self, db: &Database) -> Result<()> {
        let queue = self.queue.as_deref().filter(|queue| !is_condition(queue));
        let Some((queue, id)) = queue.and_then(|queue| Some((queue, queue.parse().ok()?))) else {
            return Ok(());
        };
        if !db.admin().queue_names(queue, 0)?.is_known && db.dlq().get(id)?.is_some() {
            // Nothing else sets it.
            _ = self.named.set(id);
        }
        Ok(())
    }

    /// The selected letters, in any state.
    pub(super) fn letters(&self) -> Result<LetterFilter> {
        if !self.ids().is_empty() {
            // The limit keeps a letter that dies again at once from being taken twice.
            let ids = LetterFilter::new().ids(self.ids().iter().copied());
            return Ok(self.filter.narrow(ids)?.limit(self.ids().len() as u64));
        }
        let letters = self.filter.letters(self.queue())?;
        Ok(match self.limit {
            Some(limit) => letters.limit(limit),
            None => letters,
        })
    }

    /// The first argument, which may be a queue or a condition.
    pub(super) fn queue(&self) -> Option<&str> {
        self.queue.as_deref().filter(|_| self.named.get().is_none())
    }

    /// The ids on the command line.
    pub(super) fn ids(&self) -> &[JobId] {
        self.named.get().map_or(&self.ids, slice::from_ref)
    }

    /// How many of `matching` letters the limit allows.
    pub(super) fn limited(&self, matching: u64) -> u64 {
        self.limit.map_or(matching, |limit| limit.min(matching))
    }

    /// The same selection as arguments for a shell.
    pub(super) fn words(&self) -> String {
        let mut words: Vec<String> = self.queue().map(quoted).into_iter().collect();
        if !self.ids().is_empty() {
            words.push("--id".to_owned());
            words.extend(self.ids().iter().map(ToString::to_string));
        }
        words.extend(self.filter.words());
        words.extend(self.limit.map(|limit| format!("--limit {limit}")));
        words.join(" ")
    }
}
