//! Follow-ups: jobs that are stored when the job of their handler is done.

use std::any::type_name;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::job::name;
use crate::job::new_job::NewJob;
use crate::job::payload::{Payload, read};

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

    pub(crate) fn new(queue: &Arc<str>, job: NewJob) -> Result<FollowUp> {
        name::check("queue", queue)?;
        job.check(queue)?;
        Ok(FollowUp {
            queue: Arc::clone(queue),
            job,
        })
    }

    /// Adds it to those of a job, unless there are too many.
    pub(crate) fn add_to(self, added: &mut Vec<FollowUp>) -> Result<()> {
        if added.len() >= MAX_FOLLOW_UPS {
            return Err(Error::invalid(format!(
                "the job has {MAX_FOLLOW_UPS} follow-ups, which is the limit; let one of them \
                 enqueue the others"
            )));
        }
        let bytes = added.iter().map(FollowUp::bytes).sum::<usize>() + self.bytes();
        if bytes > MAX_FOLLOW_UP_BYTES {
            return Err(Error::invalid(format!(
                "the payloads of the follow-ups are {bytes} bytes; the limit is {MAX_FOLLOW_UP_BYTES}"
            )));
        }
        added.push(self);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::job::Job;

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
            let of = Job::sample(());
            for _ in 0..count {
                of.then(job(before)).unwrap();
            }
            let error = of.then_in_queue(queue, last).unwrap_err();
            error.assert_invalid(why);
            assert_eq!(of.follow_ups().len(), count);
        }
    }
}
