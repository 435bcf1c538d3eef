//! What can only be said of the whole: what remains, who ended, and what was counted.

use std::collections::{HashMap, HashSet};

use crate::checker::{Findings, Life, Records, Rule};
use crate::record::{Said, Verb};
use crate::trail::Place;

pub(super) fn check(records: &Records, lives: &HashMap<i64, Life>, findings: &mut Findings) {
    remains(records, lives, findings);
    stops(records, lives, findings);
    cancels(records, lives, findings);
    suspects(findings);
    counters(records, lives, findings);
}

/// The rows at the end are where the trail says, and none of them waits.
fn remains(records: &Records, lives: &HashMap<i64, Life>, findings: &mut Findings) {
    let mut seen = HashSet::new();
    for row in records
        .remains
        .iter()
        .filter(|row| row.place != Place::Letter)
    {
        let life = lives.get(&row.job);
        if !seen.insert(row.job) {
            findings.found(
                Rule::OnePlace,
                Some(row.job),
                0,
                "it is in two places at the end",
            );
        }
        findings.found(
            Rule::NotStuck,
            Some(row.job),
            0,
            format!("it is still {:?}", row.place),
        );
        if life.is_none_or(|life| life.end != Some(row.place)) {
            let text = format!(
                "it is {:?}, and the trail has it at {:?}",
                row.place,
                life.map(|life| life.end)
            );
            findings.found(Rule::OnePlace, Some(row.job), 0, text);
        }
    }
    let letters: HashSet<i64> = records
        .remains
        .iter()
        .filter(|row| row.place == Place::Letter)
        .map(|row| row.job)
        .collect();
    for life in lives.values() {
        if life.is_letter != letters.contains(&life.job) {
            let text = format!("whether it is a letter: the trail says {}", life.is_letter);
            findings.found(Rule::OnePlace, Some(life.job), 0, text);
        }
        let is_live = life.end.is_some_and(|place| place != Place::Letter);
        if is_live && !seen.contains(&life.job) {
            let text = format!("the trail has it at {:?}, and it is not there", life.end);
            findings.found(Rule::Kept, Some(life.job), 0, text);
        }
    }
}

/// A worker that ended well holds nothing.
fn stops(records: &Records, lives: &HashMap<i64, Life>, findings: &mut Findings) {
    let ended: HashMap<&str, i64> = records
        .lines
        .iter()
        .filter(|line| matches!(line.said, Said::Ended { code: Some(0) }))
        .map(|line| (line.actor.as_str(), line.at))
        .collect();
    for life in lives.values() {
        for stay in &life.leases {
            if let Some(&at) = ended.get(&*stay.actor)
                && stay.from < at
                && stay.to > at
            {
                let text = format!("{} ended well and held it", stay.actor);
                findings.found(Rule::CleanStop, Some(life.job), at, text);
            }
        }
    }
}

/// Who died as somebody's wish, was cancelled by somebody.
fn cancels(records: &Records, lives: &HashMap<i64, Life>, findings: &mut Findings) {
    let asked: HashSet<i64> = records
        .lines
        .iter()
        .filter_map(|line| match &line.said {
            Said::Asked {
                verb: Verb::Cancel,
                ids,
                ..
            } => Some(ids),
            _ => None,
        })
        .flatten()
        .copied()
        .collect();
    for life in lives.values() {
        if let Some(at) = life.manual.filter(|_| !asked.contains(&life.job)) {
            let text = "it died as cancelled, and nobody asked for it";
            findings.found(Rule::Reason, Some(life.job), at, text);
        }
    }
}

/// A process runs one suspect at a time.
fn suspects(findings: &mut Findings) {
    let mut runs = std::mem::take(&mut findings.suspects);
    runs.sort();
    for pair in runs.windows(2) {
        let ((actor, _, end), (other, begin, _)) = (&pair[0], &pair[1]);
        if actor == other && begin < end {
            findings.found(
                Rule::SuspectsAlone,
                None,
                *begin,
                format!("{actor} ran two suspects at a time"),
            );
        }
    }
}

/// What is published is what happened.
fn counters(records: &Records, lives: &HashMap<i64, Life>, findings: &mut Findings) {
    for drift in &records.drift {
        findings.found(Rule::Counters, None, 0, drift.clone());
    }
    if records.counters.is_empty() {
        return;
    }
    let tally = findings.tally.clone();
    let enqueued = i64::try_from(
        lives
            .values()
            .filter(|life| life.enqueuer.is_some())
            .count(),
    )
    .unwrap_or(i64::MAX);
    for (name, happened) in [
        ("redrive_jobs_enqueued_total", enqueued),
        ("redrive_jobs_claimed_total", tally.claims),
        ("redrive_jobs_succeeded_total", tally.done),
        ("redrive_jobs_dead_lettered_total", tally.deaths),
        ("redrive_dlq_redriven_total", tally.redriven),
    ] {
        let published = records.counters.get(name).copied().unwrap_or_default();
        if published != happened {
            let text = format!("{name} is {published}, and it happened {happened} times");
            findings.found(Rule::Counters, None, 0, text);
        }
    }
}
