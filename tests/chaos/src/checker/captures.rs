//! Checks that a position has at most one letter at a time, and that captures return it.

use std::collections::HashMap;

use crate::checker::job_history::JobHistory;
use crate::checker::{Findings, Path, Records, Rule};
use crate::history::{ClientEvent, Operation};

pub(super) fn check(records: &Records, jobs: &HashMap<i64, JobHistory>, findings: &mut Findings) {
    let mut by_position: HashMap<&str, Vec<&JobHistory>> = HashMap::new();
    for job in jobs.values() {
        if let Some(position) = &job.position {
            by_position.entry(position).or_default().push(job);
        }
    }
    for letters in by_position.values_mut() {
        letters.sort_by_key(|letter| letter.captured);
        for pair in letters.windows(2) {
            if pair[0].gone.is_none_or(|gone| gone > pair[1].captured) {
                let text = format!("its position has the letter {} already", pair[0].job);
                findings.add(Rule::Capture, Some(pair[1].job), pair[1].captured.1, text);
            }
        }
    }
    let mut open = HashMap::new();
    for line in &records.history {
        match &line.event {
            ClientEvent::Invoked {
                operation: Operation::Capture,
                keys,
                ..
            } => {
                open.insert((&line.process, line.op), keys);
            }
            ClientEvent::Ok { ids } => {
                let Some(keys) = open.remove(&(&line.process, line.op)) else {
                    continue;
                };
                findings.paths.take(Path::Captured);
                for (id, key) in ids.iter().zip(keys) {
                    let position = jobs.get(id).and_then(|job| job.position.as_deref());
                    let is_right = position == Some(&*key.to_string());
                    if !is_right && !records.terms.may_be_lost(line.at) {
                        let text = format!(
                            "{} got it for position {key}, but it has {position:?}",
                            line.process
                        );
                        findings.add(Rule::Capture, Some(*id), line.at, text);
                    }
                }
            }
            _ => {}
        }
    }
}
