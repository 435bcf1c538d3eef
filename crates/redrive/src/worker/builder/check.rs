//! Checks the settings of a worker.

use std::time::Duration;

use super::{WORKER_CONNECTIONS, WorkerBuilder};
use crate::error::{Error, Result};
use crate::job::name;
use crate::job::new_job::MAX_PRIORITY;
use crate::pipeline::done_jobs::KEEP;
use crate::worker::handlers::HandlerOptions;
use crate::worker::limits;

impl WorkerBuilder {
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(problem) = &self.handlers.problem {
            return Err(Error::invalid(problem.clone()));
        }
        let problem = self
            .version_problem()
            .or_else(|| self.handler_problem())
            .or_else(|| self.slot_problem())
            .or_else(|| self.time_problem())
            .or_else(|| self.guard_problem());
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
        if handlers
            .options()
            .any(|options| options.concurrency == Some(0))
        {
            return Some("has a concurrency of 0; it must be 1 or more".to_owned());
        }
        let of_any = handlers.any().map(|handler| &handler.options);
        if of_any.is_some_and(|it| it.concurrency.is_some() || it.dependency.is_some()) {
            return Some(
                "gives a concurrency or a dependency to the handler of any kind; only that of one kind can have them"
                    .to_owned(),
            );
        }
        let mut names = handlers.options().flat_map(HandlerOptions::dependencies);
        self.batch_problem()
            .or_else(|| names.find_map(dependency_problem))
    }

    fn slot_problem(&self) -> Option<String> {
        if !(1..=limits::MAX_SLOTS).contains(&self.slots) {
            let slots = self.slots;
            return Some(format!("has {slots} slots; it must have 1 to 10,000"));
        }
        let weight = self.weight.unwrap_or(1);
        if !(1..=limits::MAX_WEIGHT).contains(&weight) {
            return Some(format!("has a weight of {weight}; it must be 1 to 1000"));
        }
        let connections = self.queue.database().connections();
        (connections < WORKER_CONNECTIONS).then(|| {
            format!("has a pool of {connections} connections; it needs {WORKER_CONNECTIONS}")
        })
    }

    fn time_problem(&self) -> Option<String> {
        let lease = limits::MIN_LEASE..=limits::MAX_LEASE;
        let poll = limits::MIN_POLL_INTERVAL..=limits::MAX_POLL_INTERVAL;
        let hold = limits::MIN_HOLD_TIME..=limits::MAX_HOLD_TIME;
        let options = || self.handlers.table.options();
        let deadlines = options().filter_map(|options| options.deadline);
        let deadlines = deadlines.chain([self.deadline]).map(|deadline| {
            let within = limits::MIN_DEADLINE..=limits::MAX_DEADLINE;
            ("deadline", deadline, within, "1 ms to 24 h")
        });
        let kept = options().filter_map(|options| options.keep_done);
        let kept = kept
            .chain(self.keep_done)
            .map(|time| ("time to keep finished jobs", time, KEEP, "1 s to 30 days"));
        [
            ("lease", self.lease, lease, "2 s to 1 h"),
            ("poll interval", self.poll_every(), poll, "5 ms to 1 min"),
            ("hold time", self.hold_for, hold, "10 ms to 24 h"),
        ]
        .into_iter()
        .chain(deadlines)
        .chain(kept)
        .find(|(_, time, within, _)| !within.contains(time))
        .map(|(what, time, _, range)| format!("has a {what} of {time:?}; it must be {range}"))
    }

    /// Returns what is wrong with what guards the queue.
    fn guard_problem(&self) -> Option<String> {
        let (second, day) = (Duration::from_secs(1), Duration::from_hours(24));
        if !(1..=limits::MAX_BREAKER_THRESHOLD).contains(&self.breaker_threshold) {
            return Some(format!(
                "has a breaker threshold of {}; it must be 1 to 1000",
                self.breaker_threshold
            ));
        }
        if let Some((letters, per)) = &self.flood
            && !((1..=1_000_000).contains(letters) && (second..=day).contains(per))
        {
            return Some(format!(
                "has a flood guard of {letters} letters within {per:?}; it must be 1 to 1,000,000 within 1 s to 24 h"
            ));
        }
        if let Some(time) = &self.unhandled_after
            && !(limits::MIN_UNHANDLED_TIME..=limits::MAX_UNHANDLED_TIME).contains(time)
        {
            return Some(format!(
                "buries unhandled jobs after {time:?}; it must be 1 s to 30 days"
            ));
        }
        let (after, priority) = self.age_priorities?;
        if !(limits::MIN_AGEING_TIME..=limits::MAX_AGEING_TIME).contains(&after) {
            return Some(format!(
                "ages priorities after {after:?}; it must be 1 s to 30 days"
            ));
        }
        // A redriven job gets the next higher one.
        (!(-MAX_PRIORITY..MAX_PRIORITY).contains(&priority))
            .then(|| format!("ages jobs to priority {priority}; it must be -1000 to 999"))
    }

    /// Returns what is wrong with the rule of a batch handler.
    fn batch_problem(&self) -> Option<String> {
        self.handlers.table.rules().find_map(|(kind, rule)| {
            if !(1..=limits::MAX_BATCH_SIZE).contains(&rule.size) {
                return Some(format!(
                    "has batches of {} jobs of kind `{kind}`; they must have 1 to 1,000",
                    rule.size
                ));
            }
            (rule.linger > limits::MAX_LINGER).then(|| {
                format!(
                    "lets batches of kind `{kind}` linger for {:?}; it must be 0 to 1 min",
                    rule.linger
                )
            })
        })
    }
}

/// Returns what is wrong with the name of a dependency.
fn dependency_problem(name: &str) -> Option<String> {
    if let Err(error) = name::check("dependency", name) {
        return Some(format!("has a dependency without a valid name: {error}"));
    }
    let is_reserved = name.starts_with(name::OF_QUEUES);
    is_reserved.then(|| format!("has the dependency `{name}`; the prefix `queue:` is reserved"))
}
