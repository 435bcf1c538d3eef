//! What clients were told, beside what is there.

use std::collections::HashMap;

use crate::checker::{Findings, Life, Records, Rule};
use crate::record::{Said, Verb};

/// An act of a client.
struct Act<'a> {
    actor: &'a str,
    verb: Verb,
    at: i64,
    keys: &'a [i64],
    told: Option<(i64, &'a Said)>,
}

pub(super) fn check(records: &Records, lives: &HashMap<i64, Life>, findings: &mut Findings) {
    let acts = acts(records);
    let mut by_key: HashMap<i64, &Life> = HashMap::new();
    for life in lives.values() {
        let Some(key) = life.key else {
            findings.found(Rule::NotInvented, Some(life.job), 0, "nobody named it");
            continue;
        };
        if let Some(twin) = by_key.insert(key, life) {
            let text = format!("it and job {} are of one enqueue", twin.job);
            findings.found(Rule::NotInvented, Some(life.job), 0, text);
        }
    }
    let asked: HashMap<i64, &str> = acts
        .iter()
        .flat_map(|act| act.keys.iter().map(|key| (*key, act.actor)))
        .collect();
    for life in lives.values() {
        let enqueuer = life.enqueuer.as_deref();
        if life
            .key
            .is_some_and(|key| asked.get(&key).copied() != enqueuer)
        {
            let text = format!("{enqueuer:?} stored it, and did not ask for it");
            findings.found(Rule::NotInvented, Some(life.job), 0, text);
        }
    }
    for act in &acts {
        match act.verb {
            Verb::Enqueue => enqueued(act, records, lives, &by_key, findings),
            Verb::Redrive => redriven(act, records, lives, findings),
            _ => {}
        }
    }
}

fn acts(records: &Records) -> Vec<Act<'_>> {
    let mut open: HashMap<(&str, u64), usize> = HashMap::new();
    let mut acts: Vec<Act<'_>> = Vec::new();
    for line in &records.lines {
        match &line.said {
            Said::Asked { verb, keys, .. } => {
                open.insert((&line.actor, line.op), acts.len());
                acts.push(Act {
                    actor: &line.actor,
                    verb: *verb,
                    at: line.at,
                    keys,
                    told: None,
                });
            }
            Said::Ok { .. } | Said::Refused { .. } | Said::Unknown { .. } => {
                if let Some(at) = open.get(&(line.actor.as_str(), line.op)) {
                    acts[*at].told.get_or_insert((line.at, &line.said));
                }
            }
            Said::Began { .. } | Said::Ended { .. } | Said::Fault { .. } => {}
        }
    }
    acts
}

fn enqueued(
    act: &Act<'_>,
    records: &Records,
    lives: &HashMap<i64, Life>,
    by_key: &HashMap<i64, &Life>,
    findings: &mut Findings,
) {
    match act.told {
        Some((at, Said::Ok { ids })) => {
            let is_existing = |id: &i64| *id < 0;
            for (id, key) in ids.iter().zip(act.keys) {
                if is_existing(id) {
                    existing(-id, act, at, records, lives, findings);
                    continue;
                }
                let stored = lives.get(id).filter(|life| life.key == Some(*key));
                match stored {
                    Some(_) => {}
                    None if records.terms.forgives(at) => findings.tally.forgiven += 1,
                    None => {
                        let text = format!(
                            "{} was promised it at {at}, and it was never there",
                            act.actor
                        );
                        findings.found(Rule::Honest, Some(*id), at, text);
                    }
                }
            }
        }
        Some((at, Said::Refused { why })) => {
            for life in act.keys.iter().filter_map(|key| by_key.get(key)) {
                let text = format!(
                    "{} was told that it is not stored ({why}), and it is",
                    act.actor
                );
                findings.found(Rule::Honest, Some(life.job), at, text);
            }
        }
        _ => {
            findings.tally.unknown += 1;
            findings.tally.unknown_stored +=
                i64::from(act.keys.iter().any(|key| by_key.contains_key(key)));
        }
    }
}

/// Somebody was told that this job has the key: it lived at some moment of the call.
fn existing(
    id: i64,
    act: &Act<'_>,
    at: i64,
    records: &Records,
    lives: &HashMap<i64, Life>,
    findings: &mut Findings,
) {
    let lived = lives.get(&id).is_some_and(|life| {
        life.held
            .iter()
            .any(|held| held.from.1 <= at && held.seen_to >= act.at)
    });
    if !lived && !records.terms.forgives(at) {
        let text = format!(
            "{} was told that it has the key, and it did not live then",
            act.actor
        );
        findings.found(Rule::OneOfAKey, Some(id), at, text);
    }
}

fn redriven(act: &Act<'_>, records: &Records, lives: &HashMap<i64, Life>, findings: &mut Findings) {
    let Some((at, Said::Ok { ids })) = act.told else {
        return;
    };
    for id in ids {
        let was_sent = lives.get(id).is_some_and(|life| {
            let mut sent = life.redriven.iter();
            sent.any(|(sent, by)| (act.at..=at).contains(sent) && **by == *act.actor)
        });
        if !was_sent && !records.terms.forgives(at) {
            let text = format!(
                "{} was told that it sent it back, and it did not",
                act.actor
            );
            findings.found(Rule::RedriveOnce, Some(*id), at, text);
        }
    }
}
