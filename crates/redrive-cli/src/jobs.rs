//! Commands on jobs: enqueue, work, stats and job.

mod enqueue;
mod work;
mod stats;
mod job;

pub(crate) use enqueue::{Enqueue, JobArgs};
pub(crate) use job::{JobCommand, job_conditions_help};
pub(crate) use stats::Stats;
pub(crate) use work::Work;
