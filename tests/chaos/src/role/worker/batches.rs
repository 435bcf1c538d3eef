//! The handler of batches: it decides about some jobs by their plans, and lets the end of the batch decide about the
//! others.

use redrive::{Batch, BatchJob, Failure};

use super::handlers::{Ending, Handlers};
use crate::history::{HandlerEvent, InBatch, Phase};
use crate::role::BatchWork;
use crate::role::batch::{fails_batch, is_decided};

/// A job of a batch that runs.
struct RunningMember<'a> {
    job: &'a BatchJob<BatchWork>,
    attempt: HandlerEvent,
    /// Whether the end of the batch decides about it.
    is_open: bool,
}

impl Handlers {
    /// Runs a batch. A job that fails the batch leaves the jobs behind it without a decision, as a bug would.
    pub(super) fn run_batch(&self, batch: &Batch<BatchWork>) -> Result<(), Failure> {
        let mut members = self.begin(batch);
        let longest = batch.jobs().iter().map(|job| job.payload().0.ms).max();
        self.sleep(longest.unwrap_or_default());
        let mut end = Ending::Done;
        for member in &mut members {
            match self.decide(member)? {
                Ending::Done => {}
                broken => {
                    end = broken;
                    break;
                }
            }
        }
        let open = members.iter().filter(|member| member.is_open);
        self.end(open.map(|member| &member.attempt), end)
    }

    fn begin<'a>(&self, batch: &'a Batch<BatchWork>) -> Vec<RunningMember<'a>> {
        let place = InBatch {
            number: self.next_batch(),
            jobs: batch.jobs().len(),
        };
        let members = batch.jobs().iter().map(|job| RunningMember {
            job,
            attempt: self.begins(job, Some(place)),
            is_open: true,
        });
        members.collect()
    }

    /// Decides about a job, unless the end of the batch does. Returns how the batch must end; `Done`: it continues.
    fn decide(&self, member: &mut RunningMember<'_>) -> Result<Ending, Failure> {
        let (job, attempt) = (member.job, &member.attempt);
        let work = &job.payload().0;
        self.prepare(job, attempt, work)?;
        match self.ending(attempt, work) {
            Ending::Done if is_decided(work) => {
                member.is_open = false;
                // A stop may store the decision before the batch ends.
                self.write(attempt, Phase::Done);
                job.done();
                Ok(Ending::Done)
            }
            Ending::Failed(failed) if failed.phase == Phase::Retry && fails_batch(work) => {
                Ok(Ending::Failed(failed))
            }
            Ending::Failed(failed) => {
                member.is_open = false;
                self.write_failed(attempt, &failed);
                job.fail(failed.failure);
                Ok(Ending::Done)
            }
            end => Ok(end),
        }
    }
}
