//! Checks the settings of a worker.

use std::fmt::Debug;
use std::ops::RangeInclusive;

use super::WorkerBuilder;
use crate::error::{Error, Result};
use crate::job::name;
use crate::job::new_job::MAX_PRIORITY;
use crate::pipeline::done_jobs::KEEP;
use crate::worker::handlers::HandlerOptions;
use crate::worker::limits::{
    DEADLINE, HOLD, LEASE, LETTERS, LINGER, MAX_BATCH_SIZE, PER, POLL, SLOTS, THRESHOLDS, WAIT,
    WEIGHTS,
};

impl WorkerBuilder {
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(problem) = &self.handlers.problem {
            return Err(Error::invalid(problem.clone()));
        }
        let problem = self
            .version_problem()
            .or_else(|| self.handler_problem())
            .or_else(|| self.number_problem())
            .or_else(|| self.batch_problem())
            .or_else(|| self.time_problem());
        match problem {
            None => Ok(()),
            Some(problem) => Err(Error::invalid(format!(
                "the worker of queue `{}` {problem}",
                self.config.queue.name()
            ))),
        }
    }

    fn version_problem(&self) -> Option<String> {
        let checked = name::check("version", self.version.as_deref()?);
        let error = checked.err()?;
        Some(format!("has a version that is not valid: {error}"))
    }

    fn handler_problem(&self) -> Option<String> {
        let handlers = &self.handlers;
        if handlers.is_empty() {
            return Some("has no handler".to_owned());
        }
        let of_any = handlers.any.as_ref().map(|handler| &handler.options);
        if of_any.is_some_and(|it| it.dependency.is_some()) {
            let problem =
                "gives a dependency to the handler of any kind; only that of one kind can have one";
            return Some(problem.to_owned());
        }
        let mut names = handlers
            .all_options()
            .flat_map(HandlerOptions::dependencies);
        names.find_map(dependency_problem)
    }

    fn number_problem(&self) -> Option<String> {
        let weight = self.weight.map(|weight| weight as usize);
        let threshold = self.breaker_threshold as usize;
        let letters = self.flood.map(|(letters, _)| letters);
        let aged = self.config.age_priorities.map(|(_, priority)| priority);
        // A redriven job gets the next higher priority.
        let highest = MAX_PRIORITY - 1;
        let priorities = -MAX_PRIORITY..=highest;
        outside("number of slots", [self.slots], &SLOTS, "1 to 10,000")
            .or_else(|| outside("weight", weight, &WEIGHTS, "1 to 1000"))
            .or_else(|| outside("breaker threshold", [threshold], &THRESHOLDS, "1 to 1000"))
            .or_else(|| outside("flood guard", letters, &LETTERS, "1 to 1,000,000"))
            .or_else(|| outside("priority of aged jobs", aged, &priorities, "-1000 to 999"))
    }

    fn batch_problem(&self) -> Option<String> {
        let mut rules = self.handlers.rules();
        rules.find_map(|(kind, rule)| {
            let size = format!("batch size of kind `{kind}`");
            let linger = format!("linger of kind `{kind}`");
            outside(&size, [rule.size], &(1..=MAX_BATCH_SIZE), "1 to 1,000")
                .or_else(|| outside(&linger, [rule.linger], &LINGER, "0 to 1 min"))
        })
    }

    fn time_problem(&self) -> Option<String> {
        const MONTH: &str = "1 s to 30 days";
        let options = || self.handlers.all_options();
        let deadlines = options().filter_map(|options| options.deadline);
        let deadlines = deadlines.chain([self.config.deadline]);
        let kept = options().filter_map(|options| options.keep_done);
        let kept = kept.chain(self.config.keep_done);
        let (poll, unhandled) = (self.config.poll, self.config.unhandled_after);
        let aged = self.config.age_priorities.map(|(after, _)| after);
        let flood = self.flood.map(|(_, per)| per);
        outside("lease", [self.config.lease], &LEASE, "2 s to 1 h")
            .or_else(|| outside("poll interval", [poll], &POLL, "5 ms to 1 min"))
            .or_else(|| outside("hold time", [self.config.hold_for], &HOLD, "10 ms to 24 h"))
            .or_else(|| outside("deadline", deadlines, &DEADLINE, "1 ms to 24 h"))
            .or_else(|| outside("time to keep finished jobs", kept, &KEEP, MONTH))
            .or_else(|| outside("time to wait for a handler", unhandled, &WAIT, MONTH))
            .or_else(|| outside("time to wait for a priority", aged, &WAIT, MONTH))
            .or_else(|| outside("time of the flood guard", flood, &PER, "1 s to 24 h"))
    }
}

/// Returns what is wrong with the first of these values of a setting that is out of its range.
fn outside<T: PartialOrd + Debug>(
    what: &str,
    values: impl IntoIterator<Item = T>,
    within: &RangeInclusive<T>,
    range: &str,
) -> Option<String> {
    let mut values = values.into_iter();
    let value = values.find(|value| !within.contains(value))?;
    Some(format!("has a {what} of {value:?}; it must be {range}"))
}

/// Returns what is wrong with the name of a dependency.
fn dependency_problem(name: &str) -> Option<String> {
    if let Err(error) = name::check("dependency", name) {
        return Some(format!("has a dependency without a valid name: {error}"));
    }
    let is_reserved = name.starts_with(name::OF_QUEUES);
    is_reserved.then(|| format!("has the dependency `{name}`; the prefix `queue:` is reserved"))
}
