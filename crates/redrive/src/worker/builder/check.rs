//! Checks the settings of a worker.

use std::time::Duration;

use super::{WORKER_CONNECTIONS, WorkerBuilder};
use crate::error::{Error, Result};
use crate::job::name;
use crate::job::new_job::MAX_PRIORITY;
use crate::worker::handlers::HandlerOptions;
use crate::worker::limits;

impl WorkerBuilder {
    pub(crate) fn check(&self) -> Result<()> {
        if let Some(problem) = &self.handlers.problem {
            return Err(Error::invalid(problem.clone()));
        }
        let handlers = &self.handlers.table;
        let queue = self.queue.name();
        let reject = |problem: String| {
            Err(Error::invalid(format!(
                "the worker of queue `{queue}` {problem}"
            )))
        };
        let within =
            |time: &Duration, least: Duration, most: Duration| (least..=most).contains(time);
        let (second, day) = (Duration::from_secs(1), Duration::from_hours(24));
        if handlers.is_empty() {
            return reject("has no handler".to_owned());
        }
        if let Some(problem) = self.batch_problem() {
            return reject(problem);
        }
        if !(1..=limits::MAX_SLOTS).contains(&self.slots) {
            return reject(format!(
                "has {} slots; it must have 1 to 10,000",
                self.slots
            ));
        }
        if !within(&self.lease, limits::MIN_LEASE, limits::MAX_LEASE) {
            return reject(format!(
                "has a lease of {:?}; it must be 2 s to 1 h",
                self.lease
            ));
        }
        let poll = self.poll_every();
        if !within(&poll, limits::MIN_POLL_INTERVAL, limits::MAX_POLL_INTERVAL) {
            return reject(format!(
                "has a poll interval of {poll:?}; it must be 5 ms to 1 min"
            ));
        }
        if !within(&self.hold_for, limits::MIN_HOLD_TIME, limits::MAX_HOLD_TIME) {
            return reject(format!(
                "has a hold time of {:?}; it must be 10 ms to 24 h",
                self.hold_for
            ));
        }
        if let Some(deadline) = handlers
            .options()
            .filter_map(|options| options.deadline)
            .chain([self.deadline])
            .find(|deadline| !within(deadline, limits::MIN_DEADLINE, limits::MAX_DEADLINE))
        {
            return reject(format!(
                "has a deadline of {deadline:?}; it must be 1 ms to 24 h"
            ));
        }
        if !(1..=limits::MAX_BREAKER_THRESHOLD).contains(&self.breaker_threshold) {
            return reject(format!(
                "has a breaker threshold of {}; it must be 1 to 1000",
                self.breaker_threshold
            ));
        }
        if let Some((letters, per)) = &self.flood
            && !((1..=1_000_000).contains(letters) && within(per, second, day))
        {
            return reject(format!(
                "has a flood guard of {letters} letters within {per:?}; it must be 1 to 1,000,000 within 1 s to 24 h"
            ));
        }
        if let Some(time) = &self.unhandled_after
            && !within(time, limits::MIN_UNHANDLED_TIME, limits::MAX_UNHANDLED_TIME)
        {
            return reject(format!(
                "buries unhandled jobs after {time:?}; it must be 1 s to 30 days"
            ));
        }
        if let Some((after, priority)) = &self.age_priorities {
            if !within(after, limits::MIN_AGEING_TIME, limits::MAX_AGEING_TIME) {
                return reject(format!(
                    "ages priorities after {after:?}; it must be 1 s to 30 days"
                ));
            }
            // A redriven job gets the next higher one.
            if !(-MAX_PRIORITY..MAX_PRIORITY).contains(priority) {
                return reject(format!(
                    "ages jobs to priority {priority}; it must be -1000 to 999"
                ));
            }
        }
        let mut names = handlers.options().flat_map(HandlerOptions::dependencies);
        if let Some(problem) = names.find_map(dependency_problem) {
            return reject(problem);
        }
        let connections = self.queue.database().connections();
        if connections < WORKER_CONNECTIONS {
            return reject(format!(
                "has a pool of {connections} connections; it needs {WORKER_CONNECTIONS}"
            ));
        }
        Ok(())
    }

    /// Warns if handlers in transactions can take all connections of the pool.
    pub(super) fn warn_of_few_connections(&self) {
        let connections = self.queue.database().connections();
        let slots = u32::try_from(self.slots).unwrap_or(u32::MAX);
        let most = slots.saturating_add(WORKER_CONNECTIONS);
        if !self.handlers.table.kinds_in_transactions().is_empty() && connections <= most {
            log::warn!(
                "queue={}: {slots} slots with handlers in transactions and their worker use up to {most} \
                 connections, and the pool has {connections}; other calls of this program, such as \
                 enqueues, wait while they do",
                self.queue.name()
            );
        }
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
    let is_reserved = name.starts_with("queue:");
    is_reserved.then(|| format!("has the dependency `{name}`; the prefix `queue:` is reserved"))
}
