//! The report: totals, violations by rule, and the timeline of the simplest affected job.

use std::collections::{BTreeMap, HashSet};
use std::fmt::{Debug, Write as _};

use crate::checker::{Findings, Records, Rule, Violation};
use crate::history::{ClientEvent, HistoryLine};

/// The maximum number of lines of a timeline, and of characters of a line.
const MAX_LINES: usize = 80;
const WIDTH: usize = 400;

/// Describes the findings.
pub(crate) fn describe(records: &Records, findings: &Findings) -> String {
    let counts = findings.counts.iter();
    let counts: Vec<String> = counts
        .map(|(what, times)| format!("{times} {what}"))
        .collect();
    let mut text = format!("{} row changes, {}", records.trace.len(), counts.join(", "));
    // Writing to a String cannot fail.
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
    let changes = || records.trace.iter().filter(|change| change.job == job);
    let key = changes().find_map(|change| change.facts.as_deref()?.key());
    let concerns_job = |line: &&HistoryLine| match &line.event {
        ClientEvent::Invoked { keys, ids, .. } => {
            ids.contains(&job) || key.is_some_and(|key| keys.contains(&key))
        }
        ClientEvent::Ok { ids } => ids.contains(&job) || ids.contains(&-job),
        _ => false,
    };
    let ops = records.history.iter().filter(concerns_job);
    let ops: HashSet<(&str, u64)> = ops.map(|line| (line.process.as_str(), line.op)).collect();
    let from = changes().next().map_or(0, |change| change.at);
    let last = changes().next_back();
    let until = last.map_or(i64::MAX, |change| change.at + 5_000_000);
    let is_shown = |line: &&HistoryLine| match line.event {
        ClientEvent::Fault { .. } => line.at >= from - 10_000_000,
        ClientEvent::Exited { .. } => line.at >= from,
        _ => ops.contains(&(line.process.as_str(), line.op)),
    };
    // A bulk operation has thousands of jobs.
    let cut = |what: &dyn Debug| -> String { format!("{what:?}").chars().take(WIDTH).collect() };
    let handled = records.handlers.iter().filter(|event| event.job == job);
    let asked = records.history.iter().filter(is_shown);
    let mut lines: Vec<(i64, String)> = changes()
        .map(|change| (change.at, cut(change)))
        .chain(handled.map(|event| (event.at, cut(event))))
        .chain(asked.map(|line| (line.at, cut(line))))
        .collect();
    lines.sort();
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
