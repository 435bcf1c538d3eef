//! Checks that a run whose letters were validated sends no letter that did not pass.

use std::collections::{HashMap, HashSet};

use crate::checker::{Findings, Path, Records, Rule};
use crate::db_trace::Change;
use crate::db_trace::letters::LetterTable;
use crate::history::ClientEvent;
use crate::role::operator::reason_of;

pub(super) fn check(records: &Records, findings: &mut Findings) {
    let passed = passed(records);
    let sent = records.letters.iter().filter(|row| {
        row.table == LetterTable::Letters
            && row.change == Change::Updated
            && *row.state == *"redriving"
    });
    for row in sent {
        let run = row.run.as_ref();
        let Some(passed) =
            run.and_then(|run| passed.get(&(run.by.to_string(), run.reason.to_string())))
        else {
            continue;
        };
        findings.paths.take(Path::RedrivenValid);
        if !passed.contains(&row.letter) {
            let text = "a run sent it, although it had not passed the validation";
            findings.add(Rule::Validated, Some(row.letter), row.at, text);
        }
    }
}

/// Returns the letters that passed the validation of each run, by the process and the reason of the run.
fn passed(records: &Records) -> HashMap<(String, String), HashSet<i64>> {
    let mut runs = HashMap::new();
    for line in &records.history {
        if let ClientEvent::Validated { passed, .. } = &line.event {
            let passed = passed.iter().copied().collect();
            runs.insert((line.process.clone(), reason_of(line.op)), passed);
        }
    }
    runs
}
