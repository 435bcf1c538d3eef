//! Checks that a position has at most one letter at a time, and that captures return it.

use std::collections::HashMap;

use crate::checker::job_history::JobHistory;
use crate::checker::requests::calls;
use crate::checker::{Findings, Rule, Run};
use crate::history::Operation;

pub(super) fn check(run: &Run<'_>, findings: &mut Findings) {
    let mut by_position: HashMap<&str, Vec<&JobHistory>> = HashMap::new();
    for job in run.jobs() {
        if let Some(position) = &job.position {
            by_position.entry(position).or_default().push(job);
        }
    }
    for letters in by_position.values_mut() {
        letters.sort_by_key(|letter| letter.captured);
        for pair in letters.windows(2) {
            if pair[0].gone.is_none_or(|gone| gone > pair[1].captured) {
                let text = format!("its position has the letter {} already", pair[0].job);
                findings.add(Rule::Capture, pair[1].job, pair[1].captured.1, text);
            }
        }
    }
    for call in calls(run.records)
        .iter()
        .filter(|call| call.operation == Operation::Capture)
    {
        let Some((at, ids)) = call.answer() else {
            continue;
        };
        for (id, key) in ids.iter().zip(call.keys) {
            let position = run.jobs.get(id).and_then(|job| job.position.as_deref());
            if position != Some(&*key.to_string()) && !run.terms.may_be_lost(at) {
                let process = call.process;
                let text = format!("{process} got it for position {key}, but it has {position:?}");
                findings.add(Rule::Capture, *id, at, text);
            }
        }
    }
}
