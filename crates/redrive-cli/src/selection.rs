//! What a command acts on: letters or jobs by id, or by queue and conditions.

use std::collections::BTreeSet;
use std::ops::Deref;

use clap::Args;
use redrive::admin::JobFilter;
use redrive::dlq::{Fields, Filter, LetterFilter};
use redrive::{JobId, Operator};

use crate::error::{Error, Result};
use crate::operator::Reason;
use crate::optional::Optional as _;

/// The id of the argument that takes conditions.
pub(crate) const WORDS: &str = "words";
/// The error if something that could leave out some of the ids is given with them.
const IDS_ALONE: &str =
    "ids cannot have conditions or --limit beside them; use the condition id=42,43 or group=12";

/// Letters or jobs, of all that there are.
#[derive(Args, Clone, Debug)]
#[group(skip)]
pub(crate) struct Words {
    /// Only these ids; or only this queue, and conditions such as kind=invoice 'age>5m'; see below.
    #[arg(id = WORDS, value_name = "ID|QUEUE|CONDITION", help_heading = "Selection")]
    words: Vec<String>,
}

/// A page of a list.
#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct Page {
    /// At most this many; up to 10,000.
    #[arg(long, value_name = "N", help_heading = "Selection", default_value_t = 50, allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub(crate) limit: u64,
    /// Only those after this one: the next page.
    #[arg(long, value_name = "ID", help_heading = "Selection")]
    pub(crate) after: Option<JobId>,
}

/// Letters or jobs, at most some of them.
#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct Selection {
    #[command(flatten)]
    words: Words,
    /// At most this many.
    #[arg(long, value_name = "N", help_heading = "Selection", allow_negative_numbers = true, value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
}

/// Letters or jobs to act on, whether to act, and why.
#[derive(Args, Debug)]
#[command(mut_arg(WORDS, |words| words.required(true)))]
#[group(skip)]
pub(crate) struct Bulk {
    #[command(flatten)]
    selection: Selection,
    #[command(flatten)]
    pub(crate) confirm: Confirm,
}

/// Whether to act, and why.
#[derive(Args, Debug)]
#[command(next_help_heading = "Action")]
#[group(skip)]
pub(crate) struct Confirm {
    #[command(flatten)]
    pub(crate) reason: Reason,
    /// Change nothing; show how many match, and some of them.
    #[arg(long, conflicts_with = "yes")]
    pub(crate) dry_run: bool,
    /// Act on all that match.
    #[arg(long)]
    pub(crate) yes: bool,
}

impl Confirm {
    /// The words that make a dry run act. The two options exclude each other.
    pub(crate) fn to_act(&self) -> &'static str {
        match self.dry_run {
            true => "--yes, without --dry-run",
            false => "--yes",
        }
    }
}

impl Words {
    /// The letters in any state.
    pub(crate) fn letters(&self) -> Result<LetterFilter> {
        self.filter(
            |ids| LetterFilter::new().ids(ids),
            |queue| LetterFilter::new().queue(queue),
        )
    }

    /// The jobs in any state.
    pub(crate) fn jobs(&self) -> Result<JobFilter> {
        self.filter(
            |ids| JobFilter::new().ids(ids),
            |queue| JobFilter::new().queue(queue),
        )
    }

    /// Ids, which stand alone, or a queue and then conditions. A queue whose name is a number needs `queue=`.
    fn filter<F: Fields>(
        &self,
        of_ids: impl FnOnce(Vec<JobId>) -> Filter<F>,
        of_queue: impl FnOnce(&str) -> Filter<F>,
    ) -> Result<Filter<F>> {
        let ids = self.ids();
        if !ids.is_empty() {
            return match self.typed_ids().count() == self.words.len() {
                true => Ok(of_ids(ids)),
                false => Err(Error::new(IDS_ALONE)),
            };
        }
        let (mut filter, conditions) = match (self.queue(), &*self.words) {
            (Some(queue), [_, conditions @ ..]) => (of_queue(queue), conditions),
            (_, words) => (Filter::new(), words),
        };
        for condition in conditions {
            filter = filter.condition(condition)?;
        }
        Ok(filter)
    }

    /// The ids on the command line, each once.
    pub(crate) fn ids(&self) -> Vec<JobId> {
        let mut seen = BTreeSet::new();
        self.typed_ids().filter(|id| seen.insert(*id)).collect()
    }

    fn typed_ids(&self) -> impl Iterator<Item = JobId> {
        self.words.iter().map_while(|word| word.parse().ok())
    }

    /// The queue, if the first word is its name.
    pub(crate) fn queue(&self) -> Option<&str> {
        let first = self.words.first().map(String::as_str);
        first.filter(|word| !is_condition(word) && word.parse::<JobId>().is_err())
    }

    /// Whether there is nothing but a queue, or nothing at all.
    pub(crate) fn is_queue(&self) -> bool {
        self.words.len() == usize::from(self.queue().is_some())
    }
}

impl Page {
    /// What the page shows, and one more if there is one.
    pub(crate) fn of<F: Fields>(&self, filter: Filter<F>) -> Filter<F> {
        let filter = filter.limit(self.limit + 1);
        filter.with(self.after, Filter::after)
    }
}

impl Selection {
    /// The letters in any state. Of letters given by id, each is taken once, even if it dies again at once.
    pub(crate) fn letters(&self) -> Result<LetterFilter> {
        let limit = match (self.ids().len() as u64, self.limit) {
            (0, limit) => limit,
            (ids, None) => Some(ids),
            (_, Some(_)) => return Err(Error::new(IDS_ALONE)),
        };
        Ok(self.words.letters()?.with(limit, LetterFilter::limit))
    }

    /// The ids on the command line.
    pub(crate) fn ids(&self) -> Vec<JobId> {
        self.words.ids()
    }

    /// The queue, if the first word is its name.
    pub(crate) fn queue(&self) -> Option<&str> {
        self.words.queue()
    }
}

/// What a command acts on is selected as what another one shows.
impl Deref for Bulk {
    type Target = Selection;

    fn deref(&self) -> &Selection {
        &self.selection
    }
}

impl Bulk {
    /// The jobs in any state, without the limit.
    pub(crate) fn jobs(&self) -> Result<JobFilter> {
        match self.selection.limit.is_some() && !self.ids().is_empty() {
            true => Err(Error::new(IDS_ALONE)),
            false => self.selection.words.jobs(),
        }
    }

    /// The jobs that the command may change.
    pub(crate) fn limited_jobs(&self) -> Result<JobFilter> {
        Ok(self.jobs()?.with(self.selection.limit, JobFilter::limit))
    }

    /// How many of those that match the limit allows.
    pub(crate) fn limited(&self, matching: u64) -> u64 {
        let limit = self.selection.limit;
        limit.map_or(matching, |limit| limit.min(matching))
    }

    /// Whether to change nothing. Letters and jobs given by id need no --yes.
    pub(crate) fn is_dry_run(&self) -> bool {
        self.confirm.dry_run || (!self.confirm.yes && self.ids().is_empty())
    }

    pub(crate) fn operator(&self) -> Operator {
        self.confirm.reason.operator()
    }

    /// The words that make the command of a dry run act; `None`: it acts. If `why` needs a reason, only a dry run has
    /// none.
    pub(crate) fn to_act(&self, why: Option<&str>) -> Result<Option<Vec<&'static str>>> {
        let why = why.filter(|_| self.confirm.reason.text().is_none());
        Ok(match (self.is_dry_run(), why, self.ids().is_empty()) {
            (false, Some(why), _) => return Err(Error::new(format!("{why} needs --reason TEXT"))),
            (false, None, _) => None,
            (true, Some(_), true) => Some(vec!["--reason TEXT", self.confirm.to_act()]),
            (true, None, true) => Some(vec![self.confirm.to_act()]),
            // What is given by id is only shown with --dry-run.
            (true, Some(_), false) => Some(vec!["--reason TEXT, without --dry-run"]),
            (true, None, false) => Some(Vec::new()),
        })
    }
}

/// Whether an argument is a condition and not the name of a queue.
fn is_condition(argument: &str) -> bool {
    argument.contains(['=', '<', '>', '~'])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Words {
        let words = words.iter().map(ToString::to_string).collect();
        Words { words }
    }

    #[test]
    fn words_are_ids_or_a_queue_and_then_conditions() {
        for (typed, filter) in [
            (&[][..], ""),
            (&["orders"], "queue=orders"),
            (&["orders", "kind=a b"], "queue=orders kind=\"a b\""),
            (&["kind=a", "age>5m"], "kind=a age>5m"),
            (&[" age>2h "], "age>2h"),
            (&["42"], "id=42"),
            (&["queue=42"], "queue=42"),
        ] {
            let words = words(typed);
            assert_eq!(words.jobs().expect(filter).to_string(), filter);
            assert_eq!(words.letters().expect(filter).to_string(), filter);
        }
        let twice = words(&["42", "43", "042"]).jobs().expect("jobs");
        assert_eq!(twice.to_string(), "id=42,43");
        for (typed, filter) in [
            ("class=exit 1", r#"class="exit 1""#),
            ("class=exit 1,Timeout", r#"class="exit 1",Timeout"#),
            ("message~card declined", r#"message~"card declined""#),
            ("payload.a>=x, y", r#"payload.a>="x, y""#),
        ] {
            let letters = words(&[typed]).letters().expect(filter);
            assert_eq!(letters.to_string(), filter);
        }
        for typed in [["orders", "42"], ["kind=a", "orders"], ["42", "orders"]] {
            assert!(words(&typed).jobs().is_err(), "{typed:?}");
            assert!(words(&typed).letters().is_err(), "{typed:?}");
        }
    }
}
