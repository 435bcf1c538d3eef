//! Checks that a position has at most one letter at a time, and that captures return it.

use crate::checker::{Findings, Rule, Run, grouped};
use crate::history::Operation;

pub(super) fn check(run: &Run<'_>, findings: &mut Findings) {
    let captured = run
        .jobs()
        .filter_map(|job| Some((job.position.as_deref()?, job)));
    let mut by_position = grouped(captured);
    for letters in by_position.values_mut() {
        letters.sort_by_key(|letter| letter.captured);
        for pair in letters.windows(2) {
            if pair[0].gone.is_none_or(|gone| gone > pair[1].captured) {
                let text = format!("its position has the letter {} already", pair[0].job);
                findings.add(Rule::Capture, pair[1].job, pair[1].captured.1, text);
            }
        }
    }
    for (call, at, ids) in run.calls.answered(Operation::Capture) {
        for (id, key) in ids.iter().zip(call.keys) {
            let position = run.jobs.get(id).and_then(|job| job.position.as_deref());
            if position != Some(&*key.to_string()) && !run.terms.may_be_lost(call) {
                let process = call.process;
                let text = format!("{process} got it for position {key}, but it has {position:?}");
                findings.add(Rule::Capture, *id, at, text);
            }
        }
    }
}
