//! Checks that rows of jobs and leases are updated only as a few operations do. All others delete and insert rows.

use crate::checker::requests::Requests;
use crate::checker::{Findings, Records, Rule};
use crate::db_trace::updates::RowUpdate;
use crate::history::Operation;

pub(super) fn check(records: &Records, requests: &Requests, findings: &mut Findings) {
    for update in &records.updates {
        if !is_known(update, requests) {
            let text = format!(
                "{} updated the columns {:?} of {}",
                update.process, update.columns, update.table
            );
            findings.add(Rule::Unpredicted, update.job, update.at, text);
        }
    }
}

fn is_known(update: &RowUpdate, requests: &Requests) -> bool {
    let columns: Vec<&str> = update.columns.iter().map(String::as_str).collect();
    let asked = |operation| requests.covers(&update.process, operation, update.at);
    let is_worker = update.process.starts_with("worker");
    match (update.table.as_str(), columns.as_slice()) {
        // A settle and a return of some jobs, and a checkpoint.
        ("leases", ["done" | "metas"]) => is_worker,
        // An update may change nothing, as when it stores the same checkpoint again.
        ("leases", []) => is_worker,
        ("leases", ["cancelled"]) => asked(Operation::Cancel),
        ("jobs_delayed", ["priority"]) => asked(Operation::Priority),
        ("jobs_delayed", ["payload" | "run_at"] | ["payload", "run_at"]) => {
            asked(Operation::Replace)
        }
        ("jobs_delayed", []) => asked(Operation::Priority) || asked(Operation::Replace),
        _ => false,
    }
}
