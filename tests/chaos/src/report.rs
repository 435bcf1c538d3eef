//! The report: what was looked at, what was found, and the whole story of the smallest case.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::checker::{Findings, Records, Rule, Violation};
use crate::record::Said;

/// The most lines of a story.
const LINES: usize = 80;

/// What was found, in words.
pub(crate) fn told(records: &Records, findings: &Findings) -> String {
    let tally = &findings.tally;
    let mut text = format!(
        "{} jobs, {} changes of rows, {} claims, {} done, {} deaths, {} redriven, {} reaped, {} given back, \
         {} overlapping runs, {} calls without an answer ({} of them stored)",
        tally.jobs,
        tally.events,
        tally.claims,
        tally.done,
        tally.deaths,
        tally.redriven,
        tally.reaped,
        tally.released,
        tally.overlaps,
        tally.unknown,
        tally.unknown_stored,
    );
    if !records.terms.forgiven.is_empty() {
        // Writing to a String cannot fail.
        _ = write!(
            text,
            ", {} promises lost with a primary that had a standby behind it",
            tally.forgiven
        );
    }
    _ = writeln!(text, ": {} violations", findings.violations.len());
    let mut by_rule: BTreeMap<Rule, Vec<&Violation>> = BTreeMap::new();
    for violation in &findings.violations {
        by_rule.entry(violation.rule).or_default().push(violation);
    }
    for (rule, found) in &by_rule {
        _ = writeln!(text, "\n{rule}\n    {} times, such as", found.len());
        for violation in found.iter().take(3) {
            let job = violation
                .job
                .map_or(String::new(), |job| format!("job {job}: "));
            _ = writeln!(text, "    {job}{}", violation.what);
        }
    }
    if let Some(job) = smallest(records, findings) {
        _ = writeln!(
            text,
            "\nThe story of job {job}, the shortest:\n{}",
            story(records, job)
        );
    }
    text
}

/// The job among those that something is wrong with that least happened to.
fn smallest(records: &Records, findings: &Findings) -> Option<i64> {
    let jobs = findings
        .violations
        .iter()
        .filter_map(|violation| violation.job);
    jobs.min_by_key(|job| {
        let from = records.trail.partition_point(|event| event.job < *job);
        let length = records.trail[from..].partition_point(|event| event.job == *job);
        // One that was never there has no story.
        (if length == 0 { usize::MAX } else { length }, *job)
    })
}

/// Everything that was written about a job, by time, with the faults.
fn story(records: &Records, job: i64) -> String {
    let mut lines: Vec<(i64, String)> = Vec::new();
    let events = records.trail.iter().filter(|event| event.job == job);
    let mut key = None;
    for event in events {
        key = key.or(event.key);
        let lease = event
            .lease
            .map_or(String::new(), |lease| format!(" lease {lease}"));
        let state = event.state.as_deref().map_or(String::new(), |state| {
            format!(" {state} ({})", event.reason.as_deref().unwrap_or_default())
        });
        lines.push((event.at, format!(
            "database  {:?} {:?}{state} attempt {}/{} generation {} crashes {} refunds {}{lease} tx {} by {}",
            event.place, event.step, event.attempt, event.most, event.generation, event.crashes, event.refunds,
            event.tx, event.actor,
        )));
    }
    for effect in records.effects.iter().filter(|effect| effect.job == job) {
        lines.push((
            effect.at,
            format!(
                "handler   {:?} attempt {} generation {} in {}",
                effect.edge, effect.attempt, effect.generation, effect.actor,
            ),
        ));
    }
    let mut ops: Vec<(&str, u64)> = Vec::new();
    for line in &records.lines {
        let is_its = match &line.said {
            Said::Asked { keys, ids, .. } => {
                ids.contains(&job) || key.is_some_and(|key| keys.contains(&key))
            }
            Said::Ok { ids } => ids.contains(&job) || ids.contains(&-job),
            _ => false,
        };
        if is_its {
            ops.push((&line.actor, line.op));
        }
    }
    let from = lines.iter().map(|(at, _)| *at).min().unwrap_or_default();
    for line in &records.lines {
        let said = match &line.said {
            Said::Asked { verb, keys, .. } => format!("asks to {verb:?} ({} jobs)", keys.len()),
            Said::Ok { ids } => format!("is told: done ({} jobs)", ids.len()),
            Said::Refused { why } => format!("is told: not done ({why})"),
            Said::Unknown { why } => format!("is told nothing certain ({why})"),
            Said::Began { pid } => format!("begins as process {pid}"),
            Said::Ended { code } => format!("ends with {code:?}"),
            Said::Fault { what } => {
                if line.at >= from - 10_000_000 {
                    lines.push((line.at, format!("fault     {what}")));
                }
                continue;
            }
        };
        let is_its = ops.contains(&(line.actor.as_str(), line.op));
        let is_end = matches!(line.said, Said::Ended { .. }) && line.at >= from;
        if is_its || is_end {
            lines.push((line.at, format!("client    {} {said}", line.actor)));
        }
    }
    lines.sort();
    let until = records
        .trail
        .iter()
        .rfind(|event| event.job == job)
        .map_or(i64::MAX, |event| event.at + 5_000_000);
    lines.retain(|(at, _)| *at <= until);
    let cut = lines.len().saturating_sub(LINES);
    let mut text = String::new();
    if cut > 0 {
        _ = writeln!(text, "    ({cut} earlier lines are left out)");
    }
    for (at, line) in &lines[cut..] {
        let (whole, part) = ((at - from) / 1000, (at - from).rem_euclid(1000));
        _ = writeln!(text, "    {whole:>9}.{part:03} ms  {line}");
    }
    text
}
