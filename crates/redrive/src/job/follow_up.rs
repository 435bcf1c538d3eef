//! Follow-ups: jobs that are stored when the job of their handler is done.

use std::any::type_name;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::job::name;
use crate::job::new_job::NewJob;
use crate::job::payload::{Payload, read};
use crate::sync::{Mutex, lock};

/// The maximum number of follow-ups of a job: 100.
pub const MAX_FOLLOW_UPS: usize = 100;
/// The largest payloads of all follow-ups of a job together, in bytes of JSON text: 4 MiB.
pub const MAX_FOLLOW_UP_BYTES: usize = 4 * 1024 * 1024;

/// A job to store when another one is done.
#[derive(Clone, Debug)]
pub struct FollowUp {
    pub(crate) queue: Arc<str>,
    pub(crate) job: NewJob,
}

impl FollowUp {
    /// Returns the queue.
    pub fn queue(&self) -> &str {
        &self.queue
    }

    /// Returns the kind.
    pub fn kind(&self) -> &str {
        &self.job.kind
    }

    /// Returns the headers.
    pub fn headers(&self) -> &BTreeMap<String, String> {
        &self.job.headers.0
    }

    /// Returns the payload, as one of the present version of its type.
    ///
    /// # Errors
    /// *Invalid* if the follow-up is of another kind, or its payload is no `P`.
    pub fn payload<P: Payload>(&self) -> Result<P> {
        let kind = self.kind();
        if kind != P::KIND {
            let expected = P::KIND;
            return Err(Error::invalid(format!(
                "the follow-up is of kind `{kind}`, not `{expected}`"
            )));
        }
        read(self.job.payload.as_str(), P::VERSION).map_err(|failure| {
            let expected = type_name::<P>();
            Error::invalid(format!(
                "the payload of the follow-up of kind `{kind}` is no {expected}: {failure}"
            ))
        })
    }

    pub(crate) fn is_unique(&self) -> bool {
        self.job.unique_key.is_some()
    }

    fn bytes(&self) -> usize {
        self.job.payload.as_str().len()
    }
}

/// The follow-ups that a handler has added so far, in the order of the calls.
#[derive(Debug, Default)]
pub(crate) struct FollowUps(Mutex<Vec<FollowUp>>);

impl FollowUps {
    /// Adds a follow-up, unless it is invalid or there are too many.
    pub(crate) fn add(&self, queue: &Arc<str>, job: NewJob) -> Result<()> {
        name::check("queue", queue)?;
        job.check(queue)?;
        let follow_up = FollowUp {
            queue: Arc::clone(queue),
            job,
        };
        let mut added = lock(&self.0);
        if added.len() >= MAX_FOLLOW_UPS {
            return Err(Error::invalid(format!(
                "the job has {MAX_FOLLOW_UPS} follow-ups, which is the limit; let one of them \
                 enqueue the others"
            )));
        }
        let bytes = added.iter().map(FollowUp::bytes).sum::<usize>() + follow_up.bytes();
        if bytes > MAX_FOLLOW_UP_BYTES {
            return Err(Error::invalid(format!(
                "the payloads of the follow-ups are {bytes} bytes; the limit is {MAX_FOLLOW_UP_BYTES}"
            )));
        }
        added.push(follow_up);
        Ok(())
    }

    pub(crate) fn list(&self) -> Vec<FollowUp> {
        lock(&self.0).clone()
    }

    pub(crate) fn take(&self) -> Vec<FollowUp> {
        std::mem::take(&mut lock(&self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(payload: &str) -> NewJob {
        NewJob::raw("k", payload).unwrap()
    }

    #[test]
    fn a_follow_up_that_is_invalid_or_too_much_is_refused_and_those_before_it_are_kept() {
        let large = format!("\"{}\"", "x".repeat(MAX_FOLLOW_UP_BYTES / 4 - 2));
        for (count, before, queue, last, why) in [
            (1, "1", " q", job("2"), "begins or ends with a space"),
            (1, "1", "q", job("3").priority(1001), "priority is 1001"),
            (MAX_FOLLOW_UPS, "1", "q", job("1"), "has 100 follow-ups"),
            (4, &*large, "q", job("1"), "are 4194305 bytes"),
        ] {
            let follow_ups = FollowUps::default();
            for _ in 0..count {
                follow_ups.add(&"q".into(), job(before)).unwrap();
            }
            let error = follow_ups.add(&queue.into(), last).unwrap_err();
            error.assert_invalid(why);
            assert_eq!(follow_ups.take().len(), count);
        }
    }
}
