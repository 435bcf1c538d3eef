//! Unique keys: at most one live job has one, at any moment.

use std::collections::HashMap;

use crate::checker::{Findings, Life, Rule};

/// When a span begins or ends: its number in the trail, and the time.
type Moment = (i64, i64);

pub(super) fn check(lives: &HashMap<i64, Life>, findings: &mut Findings) {
    let mut by_key: HashMap<&str, Vec<(Moment, Moment, i64)>> = HashMap::new();
    for life in lives.values() {
        for held in &life.held {
            by_key
                .entry(&held.key)
                .or_default()
                .push((held.from, held.to, life.job));
        }
    }
    for (key, mut spans) in by_key {
        spans.sort_unstable();
        for pair in spans.windows(2) {
            let ((_, until, first), (from, _, second)) = (pair[0], pair[1]);
            if from.0 < until.0 {
                let text = format!("it has the key {key}, and so has job {first}, which lives");
                findings.found(Rule::OneOfAKey, Some(second), from.1, text);
            }
        }
    }
}
