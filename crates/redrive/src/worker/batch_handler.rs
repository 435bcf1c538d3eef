//! Runs the handler of a batch, and finds the outcome of each job.

use std::sync::Arc;

use crate::job::failure::Failure;
use crate::job::job::Signal;
use crate::job::payload::{Payload, read};
use crate::pipeline::attempt::run_handler;
use crate::sync::lock;
use crate::worker::batch::{Batch, BatchJob, BatchOptions};
use crate::worker::handlers::{Call, Handler, HandlerOptions, JobEnd, Jobs, decided, decode};

/// Returns a handler of batches of decoded payloads.
pub(crate) fn batch<P, F>(rule: BatchOptions, function: F) -> Handler
where
    P: Payload + 'static,
    F: Fn(&Batch<P>) -> Result<(), Failure> + Send + Sync + 'static,
{
    let call = move |jobs: Jobs<'_>| {
        let mut batch = Batch { jobs: Vec::new() };
        let decoded = jobs.map(|(claimed, signal)| {
            let decoded = decode(claimed, signal, read);
            decoded.map(|job| batch.jobs.push(BatchJob(job)))
        });
        // The ends of jobs that cannot be decoded.
        let ends: Vec<Option<JobEnd>> = decoded.map(|it| it.err().map(Err)).collect();
        let mut ran = run(batch, &function).into_iter();
        let ends = ends.into_iter();
        ends.filter_map(|end| end.or_else(|| ran.next())).collect()
    };
    Handler {
        batches: Some(rule),
        ..Handler::new(Call::Plain(Arc::new(call)), HandlerOptions::of::<P>())
    }
}

/// Runs the handler, unless no payload could be decoded.
fn run<P>(batch: Batch<P>, function: impl Fn(&Batch<P>) -> Result<(), Failure>) -> Vec<JobEnd> {
    if batch.jobs.is_empty() {
        return Vec::new();
    }
    let ran = run_handler(|| function(&batch));
    let signals = batch.jobs.iter().map(|job| Arc::clone(&job.0.signal));
    let signals: Vec<Arc<Signal>> = signals.collect();
    // A panic in Drop counts as a panic of the handler.
    let dropped = run_handler(|| {
        drop(batch);
        Ok(())
    });
    let of_batch = dropped.and(ran);
    // What the handler said about a job or, if it said nothing, how the batch ended.
    let end = |signal: Arc<Signal>| {
        let undecided = || of_batch.clone().map(|()| lock(&signal.follow_ups).clone());
        decided(&signal).unwrap_or_else(undecided)
    };
    signals.into_iter().map(end).collect()
}
