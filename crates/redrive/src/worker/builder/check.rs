//! Checks the settings of a worker.

use std::fmt::{Debug, Display};
use std::ops::RangeInclusive;

use super::{WORKER_CONNECTIONS, WorkerBuilder};
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
            .or_else(|| self.time_problem())
            .or_else(|| self.connection_problem());
        match problem {
            None => Ok(()),
            Some(problem) => Err(Error::invalid(format!(
                "the worker of queue `{}` {problem}",
                self.queue.name()
            ))),
        }
    }

    fn version_problem(&self) -> Option<String> {
        let checked = name::check("version", self.version.as_deref()?);
        let error = checked.err()?;
        Some(format!("has a version that is not valid: {error}"))
    }

    fn handler_problem(&self) -> Option<String> {
        let handlers = &self.handlers.table;
        if handlers.is_empty() {
            return Some("has no handler".to_owned());
        }
        let of_any = handlers.any().map(|handler| &handler.options);
        if of_any.is_some_and(|it| it.concurrency.is_some() || it.dependency.is_some()) {
            return Some(
                "gives a concurrency or a dependency to the handler of any kind; only that of one kind can have them"
                    .to_owned(),
            );
        }
        let mut names = handlers.options().flat_map(HandlerOptions::dependencies);
        names.find_map(dependency_problem)
    }

    fn number_problem(&self) -> Option<String> {
        let options = self.handlers.table.options();
        let concurrency = options.filter_map(|options| options.concurrency);
        let any = 1..=usize::MAX;
        let concurrency = concurrency.map(|jobs| ("concurrency", jobs, any.clone(), "1 or more"));
        let flood = self.flood;
        let letters = flood.map(|(it, _)| ("flood guard", it, LETTERS, "1 to 1,000,000"));
        let weight = self.weight.unwrap_or(1) as usize;
        let threshold = self.breaker_threshold as usize;
        let numbers = [
            ("number of slots", self.slots, SLOTS, "1 to 10,000"),
            ("weight", weight, WEIGHTS, "1 to 1000"),
            ("breaker threshold", threshold, THRESHOLDS, "1 to 1000"),
        ];
        let numbers = numbers.into_iter().chain(concurrency).chain(letters);
        // A redriven job gets the next higher priority.
        let highest = MAX_PRIORITY - 1;
        let aged = self.age_priorities.map(|(_, priority)| {
            let within = -MAX_PRIORITY..=highest;
            ("priority of aged jobs", priority, within, "-1000 to 999")
        });
        outside(numbers).or_else(|| outside(aged))
    }

    fn batch_problem(&self) -> Option<String> {
        let sizes = self.handlers.table.rules().map(|(kind, rule)| {
            let what = format!("batch size of kind `{kind}`");
            (what, rule.size, 1..=MAX_BATCH_SIZE, "1 to 1,000")
        });
        let lingers = self.handlers.table.rules().map(|(kind, rule)| {
            let what = format!("linger of kind `{kind}`");
            (what, rule.linger, LINGER, "0 to 1 min")
        });
        outside(sizes).or_else(|| outside(lingers))
    }

    fn time_problem(&self) -> Option<String> {
        const MONTH: &str = "1 s to 30 days";
        let options = || self.handlers.table.options();
        let deadlines = options().filter_map(|options| options.deadline);
        let deadlines = deadlines.chain([self.deadline]);
        let deadlines = deadlines.map(|it| ("deadline", it, DEADLINE, "1 ms to 24 h"));
        let kept = options().filter_map(|options| options.keep_done);
        let kept = kept.chain(self.keep_done);
        let kept = kept.map(|it| ("time to keep finished jobs", it, KEEP, MONTH));
        let (unhandled, aged, flood) = (self.unhandled_after, self.age_priorities, self.flood);
        let unhandled = unhandled.map(|it| ("time to wait for a handler", it, WAIT, MONTH));
        let aged = aged.map(|(it, _)| ("time to wait for a priority", it, WAIT, MONTH));
        let flood = flood.map(|(_, it)| ("time of the flood guard", it, PER, "1 s to 24 h"));
        let times = [
            ("lease", self.lease, LEASE, "2 s to 1 h"),
            ("poll interval", self.poll_every(), POLL, "5 ms to 1 min"),
            ("hold time", self.hold_for, HOLD, "10 ms to 24 h"),
        ];
        let optional = unhandled.into_iter().chain(aged).chain(flood);
        outside(
            times
                .into_iter()
                .chain(deadlines)
                .chain(kept)
                .chain(optional),
        )
    }

    fn connection_problem(&self) -> Option<String> {
        let connections = self.queue.database().connections();
        (connections < WORKER_CONNECTIONS).then(|| {
            format!("has a pool of {connections} connections; it needs {WORKER_CONNECTIONS}")
        })
    }
}

/// Returns what is wrong with the first of these settings that is out of its range.
fn outside<W: Display, T: PartialOrd + Debug>(
    settings: impl IntoIterator<Item = (W, T, RangeInclusive<T>, &'static str)>,
) -> Option<String> {
    let mut settings = settings.into_iter();
    let (what, value, _, range) = settings.find(|(_, value, within, _)| !within.contains(value))?;
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
