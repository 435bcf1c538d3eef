//! Jobs and failures as values. Nothing in this stage performs I/O.

pub(crate) mod words;
pub(crate) mod setters;
pub(crate) mod id;
pub(crate) mod name;
pub(crate) mod caught;
pub(crate) mod backoff;
pub(crate) mod death_cause;
pub(crate) mod job_state;
pub(crate) mod error_report;
pub(crate) mod disposition;
pub(crate) mod deciding_error;
pub(crate) mod failure;
pub(crate) mod payload;
pub(crate) mod milliseconds;
pub(crate) mod headers;
pub(crate) mod wait;
pub(crate) mod new_job;
pub(crate) mod follow_up;
pub(crate) mod checkpoint;
#[allow(
    clippy::module_inception,
    reason = "the stage is named after its main type"
)]
pub(crate) mod job;
pub(crate) mod sample;
pub(crate) mod duration;
pub(crate) mod operator;
