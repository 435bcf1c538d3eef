//! Checks that checkpoints are stored as they were written, and that the next attempt gets the last
//! one.

use crate::checker::job_history::{JobHistory, LeaseEnd};
use crate::checker::{Findings, Records, Rule};
use crate::history::{HandlerEvent, Phase};

pub(super) fn check(
    job: &JobHistory,
    events: &[HandlerEvent],
    records: &Records,
    findings: &mut Findings,
) {
    let mut broken = |at, text| findings.add_lack(Rule::Checkpoint, job.job, at, text);
    let all = &records.checkpoints;
    let written = &all[all.partition_point(|event| event.job < job.job)..];
    let written = &written[..written.partition_point(|event| event.job == job.job)];
    for span in &job.leases {
        let is_own = |event: &&HandlerEvent| {
            (event.generation, event.attempt) == (span.generation, span.attempt)
                && *event.process == *span.process
                && event.at >= span.from
        };
        let own = || events.iter().filter(is_own);
        let writes = || written.iter().filter(is_own);
        // An attempt begins with the checkpoint of its claim. A later lease of the same attempt may be at the same
        // process.
        let claimed = span.checkpoint;
        let begins = own().filter(|event| event.phase == Phase::Begin && event.at <= span.to);
        for begin in begins.filter(|begin| begin.checkpoint != claimed) {
            let got = begin.checkpoint;
            broken(
                begin.at,
                format!("it began with checkpoint {got:?} instead of {claimed:?}"),
            );
        }
        // The attempt wrote what was stored, and no older checkpoint replaces a newer one.
        let mut before = claimed;
        for (at, value) in &span.stored {
            let is_written = writes().any(|event| event.checkpoint == *value && event.at <= *at);
            if !is_written || *value < before {
                broken(
                    *at,
                    format!("checkpoint {value:?} was stored after {before:?}"),
                );
            }
            before = *value;
        }
        let has_failed = own().any(|event| event.phase == Phase::Retry && event.at <= span.to);
        let is_charged = matches!(span.end, LeaseEnd::Charged { .. });
        let Some(last) = writes().next_back().filter(|_| has_failed && is_charged) else {
            continue;
        };
        let (written_at, last) = (last.at, last.checkpoint);
        if last.is_some() && before.max(claimed) != last {
            // A failover may have lost what a renewal had stored.
            let mut lossy = records.terms.lossy.iter();
            let lost = lossy.find(|it| written_at <= *it.end() && *it.start() <= span.to);
            let text = format!("it failed with checkpoint {last:?}, but {before:?} was stored");
            broken(lost.map_or(span.to, |it| *it.start()), text);
        }
    }
}
