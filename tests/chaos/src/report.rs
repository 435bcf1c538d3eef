//! The report: totals, violations by rule, and the timeline of the simplest affected job.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::checker::{Findings, Records, Rule, Violation};
use crate::history::ClientEvent;

/// The maximum number of lines of a timeline.
const MAX_LINES: usize = 80;

/// Describes the findings.
pub(crate) fn describe(records: &Records, findings: &Findings) -> String {
    let totals = &findings.totals;
    let mut text = format!(
        "{} jobs, {} row changes, {} claims, {} done, {} deaths, {} redriven, {} reaped, {} released, \
         {} overlapping attempts, {} calls without an answer ({} of them took effect)",
        totals.jobs,
        totals.changes,
        totals.claims,
        totals.done,
        totals.deaths,
        totals.redriven,
        totals.reaped,
        totals.released,
        totals.overlaps,
        totals.unknown,
        totals.unknown_stored,
    );
    if !records.terms.lossy_windows.is_empty() {
        // Writing to a String cannot fail.
        _ = write!(
            text,
            ", {} acknowledged jobs lost in a failover to a lagging standby",
            totals.lost_in_failover
        );
    }
    _ = writeln!(text, ": {} violations", findings.violations.len());
    let mut by_rule: BTreeMap<Rule, Vec<&Violation>> = BTreeMap::new();
    for violation in &findings.violations {
        by_rule.entry(violation.rule).or_default().push(violation);
    }
    for (rule, found) in &by_rule {
        _ = writeln!(text, "\n{rule}\n    {} times, for example", found.len());
        for violation in found.iter().take(3) {
            let job = violation
                .job
                .map_or(String::new(), |job| format!("job {job}: "));
            _ = writeln!(text, "    {job}{}", violation.what);
        }
    }
    if let Some(job) = simplest(records, findings) {
        _ = writeln!(text, "\nTimeline of job {job}:\n{}", timeline(records, job));
    }
    text
}

/// Returns the affected job with the fewest row changes.
fn simplest(records: &Records, findings: &Findings) -> Option<i64> {
    let jobs = findings
        .violations
        .iter()
        .filter_map(|violation| violation.job);
    jobs.min_by_key(|job| {
        let from = records.trace.partition_point(|change| change.job < *job);
        let length = records.trace[from..].partition_point(|change| change.job == *job);
        // A job without rows has no timeline.
        (if length == 0 { usize::MAX } else { length }, *job)
    })
}

/// Merges all records of a job by time, with the faults.
fn timeline(records: &Records, job: i64) -> String {
    let mut lines: Vec<(i64, String)> = Vec::new();
    let changes = records.trace.iter().filter(|change| change.job == job);
    let mut key = None;
    for change in changes {
        key = key.or(change.key);
        let lease = change
            .lease
            .map_or(String::new(), |lease| format!(" lease {lease}"));
        let state = change.state.as_deref().map_or(String::new(), |state| {
            format!(" {state} ({})", change.cause.as_deref().unwrap_or_default())
        });
        lines.push((change.at, format!(
            "database  {:?} {:?}{state} attempt {}/{} generation {} crashes {} refunds {}{lease} tx {} by {}",
            change.place, change.change, change.attempt, change.max_attempts, change.generation, change.crashes,
            change.refunds, change.tx, change.process,
        )));
    }
    for event in records.handlers.iter().filter(|event| event.job == job) {
        lines.push((
            event.at,
            format!(
                "handler   {:?} attempt {} generation {} in {}",
                event.phase, event.attempt, event.generation, event.process,
            ),
        ));
    }
    let mut ops: Vec<(&str, u64)> = Vec::new();
    for line in &records.history {
        let concerns_job = match &line.event {
            ClientEvent::Invoked { keys, ids, .. } => {
                ids.contains(&job) || key.is_some_and(|key| keys.contains(&key))
            }
            ClientEvent::Ok { ids } => ids.contains(&job) || ids.contains(&-job),
            ClientEvent::Validated { passed, failed } => {
                passed.contains(&job) || failed.contains(&job)
            }
            _ => false,
        };
        if concerns_job {
            ops.push((&line.process, line.op));
        }
    }
    let from = lines.iter().map(|(at, _)| *at).min().unwrap_or_default();
    for line in &records.history {
        let event = match &line.event {
            ClientEvent::Invoked {
                operation, keys, ..
            } => format!("invokes {operation:?} ({} jobs)", keys.len()),
            ClientEvent::Selects(selection) => format!("selects {selection:?}"),
            ClientEvent::Validated { passed, failed } => {
                format!(
                    "validates ({} passed, {} failed)",
                    passed.len(),
                    failed.len()
                )
            }
            ClientEvent::Ok { ids } => format!("succeeds ({} jobs)", ids.len()),
            ClientEvent::Failed { error } => format!("fails ({error})"),
            ClientEvent::Unknown { error } => format!("gets no answer ({error})"),
            ClientEvent::Started { pid } => format!("starts as process {pid}"),
            ClientEvent::Exited { code } => format!("exits with {code:?}"),
            ClientEvent::Fault { what } => {
                if line.at >= from - 10_000_000 {
                    lines.push((line.at, format!("fault     {what}")));
                }
                continue;
            }
        };
        let concerns_job = ops.contains(&(line.process.as_str(), line.op));
        let is_end = matches!(line.event, ClientEvent::Exited { .. }) && line.at >= from;
        if concerns_job || is_end {
            lines.push((line.at, format!("client    {} {event}", line.process)));
        }
    }
    lines.sort();
    let until = records
        .trace
        .iter()
        .rfind(|change| change.job == job)
        .map_or(i64::MAX, |change| change.at + 5_000_000);
    lines.retain(|(at, _)| *at <= until);
    let cut = lines.len().saturating_sub(MAX_LINES);
    let mut text = String::new();
    if cut > 0 {
        _ = writeln!(text, "    ({cut} earlier lines omitted)");
    }
    for (at, line) in &lines[cut..] {
        let (whole, part) = ((at - from) / 1000, (at - from).rem_euclid(1000));
        _ = writeln!(text, "    {whole:>9}.{part:03} ms  {line}");
    }
    text
}
