//! Checks that checkpoints are stored as they were written, and that the next attempt gets the last
//! one.

use crate::checker::job_history::{JobHistory, LeaseEnd, LeaseSpan};
use crate::checker::{Findings, Records, Rule};
use crate::history::{HandlerEvent, Phase};

pub(super) fn check(
    job: &JobHistory,
    events: &[HandlerEvent],
    records: &Records,
    findings: &mut Findings,
) {
    let from = records
        .checkpoints
        .partition_point(|event| event.job < job.job);
    let written = &records.checkpoints[from..];
    let written = &written[..written.partition_point(|event| event.job == job.job)];
    // A promoted standby may have lost a checkpoint with the rest of the attempt.
    let may_be_lost = |event: &HandlerEvent| records.terms.claim_may_be_lost(event.at);
    for span in &job.leases {
        if events
            .iter()
            .any(|event| is_of(span, event) && may_be_lost(event))
        {
            continue;
        }
        check_begin(job, span, events, findings);
        let own: Vec<&HandlerEvent> = written.iter().filter(|event| is_of(span, event)).collect();
        check_stored(job, span, &own, findings);
        let failed = events
            .iter()
            .any(|event| is_of(span, event) && event.phase == Phase::Retry && event.at <= span.to);
        let last = own.last().and_then(|event| event.checkpoint);
        let stored = span.stored.last().and_then(|(_, value)| *value);
        let is_charged = matches!(span.end, LeaseEnd::Charged { .. });
        if failed && is_charged && last.is_some() && stored.max(span.checkpoint) != last {
            let text =
                format!("its attempt failed with checkpoint {last:?}, but {stored:?} was stored");
            findings.add(Rule::Checkpoint, Some(job.job), span.to, text);
        }
    }
}

/// Whether an event belongs to the attempt of a lease.
fn is_of(span: &LeaseSpan, event: &HandlerEvent) -> bool {
    (event.generation, event.attempt) == (span.generation, span.attempt)
        && *event.process == *span.process
        && event.at >= span.from
}

/// Checks that an attempt begins with the checkpoint of its claim.
fn check_begin(
    job: &JobHistory,
    span: &LeaseSpan,
    events: &[HandlerEvent],
    findings: &mut Findings,
) {
    // A later lease of the same attempt may be at the same process.
    let is_own = |event: &&HandlerEvent| {
        is_of(span, event) && event.phase == Phase::Begin && event.at <= span.to
    };
    for begin in events.iter().filter(is_own) {
        if begin.checkpoint != span.checkpoint {
            let text = format!(
                "attempt {} began with checkpoint {:?}, but it had {:?}",
                span.attempt, begin.checkpoint, span.checkpoint
            );
            findings.add(Rule::Checkpoint, Some(job.job), begin.at, text);
        }
    }
}

/// Checks that the attempt wrote what was stored, and that no older checkpoint replaces a newer one.
fn check_stored(
    job: &JobHistory,
    span: &LeaseSpan,
    own: &[&HandlerEvent],
    findings: &mut Findings,
) {
    let mut before = span.checkpoint;
    for (at, value) in &span.stored {
        let is_written = own
            .iter()
            .any(|event| event.checkpoint == *value && event.at <= *at);
        if !is_written || *value < before {
            let text = format!("checkpoint {value:?} was stored after {before:?}");
            findings.add(Rule::Checkpoint, Some(job.job), *at, text);
        }
        before = *value;
    }
}
