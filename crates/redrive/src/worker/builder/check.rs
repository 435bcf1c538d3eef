//! Checks the settings of a worker.

use std::fmt::Debug;
use std::ops::RangeInclusive;

use super::WorkerBuilder;
use crate::error::{Error, Result};
use crate::job::name;
use crate::job::new_job::MAX_PRIORITY;
use crate::pipeline::done_jobs::KEEP;
use crate::worker::limits::{
    DEADLINE, HOLD, LEASE, LETTERS, LINGER, MAX_BATCH_SIZE, PER, POLL, SLOTS, THRESHOLDS, WAIT,
    WEIGHTS,
};

impl WorkerBuilder {
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(problem) = &self.handlers.problem {
            return Err(Error::invalid(problem.clone()));
        }
        self.check_settings().map_err(|problem| {
            let queue = self.config.queue.name();
            Error::invalid(format!("the worker of queue `{queue}` {problem}"))
        })
    }

    fn check_settings(&self) -> Result<(), String> {
        const MONTH: &str = "1 s to 30 days";
        let (config, handlers) = (&self.config, &self.handlers);
        if let Some(version) = &self.version {
            name::check("version", version)
                .map_err(|error| format!("has a version that is not valid: {error}"))?;
        }
        if handlers.is_empty() {
            return Err("has no handler".to_owned());
        }
        let of_any = handlers.any.as_ref().map(|handler| &handler.options);
        if of_any.is_some_and(|it| it.dependency.is_some()) {
            let problem =
                "gives a dependency to the handler of any kind; only that of one kind can have one";
            return Err(problem.to_owned());
        }
        for options in handlers.all_options() {
            options.dependencies().try_for_each(check_dependency)?;
            within("deadline", options.deadline, &DEADLINE, "1 ms to 24 h")?;
            within(
                "time to keep finished jobs",
                options.keep_done,
                &KEEP,
                MONTH,
            )?;
        }
        for (kind, rule) in handlers.rules() {
            let size = format!("batch size of kind `{kind}`");
            let linger = format!("linger of kind `{kind}`");
            within(&size, [rule.size], &(1..=MAX_BATCH_SIZE), "1 to 1,000")?;
            within(&linger, [rule.linger], &LINGER, "0 to 1 min")?;
        }
        let weight = self.weight.map(|weight| weight as usize);
        let threshold = self.breaker_threshold as usize;
        within("number of slots", [self.slots], &SLOTS, "1 to 10,000")?;
        within("weight", weight, &WEIGHTS, "1 to 1000")?;
        within("breaker threshold", [threshold], &THRESHOLDS, "1 to 1000")?;
        if let Some((letters, per)) = self.flood {
            within("flood guard", [letters], &LETTERS, "1 to 1,000,000")?;
            within("time of the flood guard", [per], &PER, "1 s to 24 h")?;
        }
        if let Some((after, priority)) = config.age_priorities {
            // A redriven job gets the next higher priority.
            let priorities = -MAX_PRIORITY..=MAX_PRIORITY - 1;
            within(
                "priority of aged jobs",
                [priority],
                &priorities,
                "-1000 to 999",
            )?;
            within("time to wait for a priority", [after], &WAIT, MONTH)?;
        }
        let unhandled = config.unhandled_after;
        within("lease", [config.lease], &LEASE, "2 s to 1 h")?;
        within("poll interval", [config.poll], &POLL, "5 ms to 1 min")?;
        within("hold time", [config.hold_for], &HOLD, "10 ms to 24 h")?;
        within("deadline", [config.deadline], &DEADLINE, "1 ms to 24 h")?;
        within("time to keep finished jobs", config.keep_done, &KEEP, MONTH)?;
        within("time to wait for a handler", unhandled, &WAIT, MONTH)
    }
}

/// Says what is wrong with the first of these values of a setting that is out of its range.
fn within<T: PartialOrd + Debug>(
    what: &str,
    values: impl IntoIterator<Item = T>,
    range: &RangeInclusive<T>,
    words: &str,
) -> Result<(), String> {
    let mut values = values.into_iter();
    match values.find(|value| !range.contains(value)) {
        Some(value) => Err(format!("has a {what} of {value:?}; it must be {words}")),
        None => Ok(()),
    }
}

/// Says what is wrong with the name of a dependency.
fn check_dependency(name: &str) -> Result<(), String> {
    name::check("dependency", name)
        .map_err(|error| format!("has a dependency without a valid name: {error}"))?;
    match name.starts_with(name::OF_QUEUES) {
        true => Err(format!(
            "has the dependency `{name}`; the prefix `queue:` is reserved"
        )),
        false => Ok(()),
    }
}
