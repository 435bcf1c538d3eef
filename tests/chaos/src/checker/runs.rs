//! What handlers did, beside what was written of it: every run under a claim, one run a lease, and
//! verdicts that are what the handlers said.

use crate::checker::{Findings, Life, Records, Rule, Stay, Terms, Was};
use crate::record::{Edge, Effect};

/// A run of a handler.
struct Run<'a> {
    begin: &'a Effect,
    end: Option<&'a Effect>,
    /// The lease that it ran under.
    stay: Option<usize>,
}

pub(super) fn check(life: &Life, effects: &[Effect], records: &Records, findings: &mut Findings) {
    let runs = runs(life, effects);
    for run in &runs {
        began(life, run, &records.terms, findings);
    }
    let mut by_stay: Vec<Option<&Run<'_>>> = vec![None; life.leases.len()];
    for run in &runs {
        let Some(stay) = run.stay else { continue };
        // With a claim that was lost a run seems to be another's.
        let is_forgiven = records.terms.forgives_run(run.begin.at);
        if by_stay[stay].replace(run).is_some() && !is_forgiven {
            let text = "it ran twice under one lease".to_owned();
            findings.found(Rule::NoOverlap, Some(life.job), run.begin.at, text);
        }
    }
    for (stay, run) in life.leases.iter().zip(by_stay) {
        verdict(life, stay, run, &records.terms, findings);
    }
    overlaps(life, &runs, &records.terms, findings);
    own(life, effects, records, findings);
}

/// Effects of jobs that the trail does not know.
pub(super) fn strangers(effects: &[Effect], terms: &Terms, findings: &mut Findings) {
    for effect in effects {
        if effect.edge == Edge::Begin && !terms.forgives_run(effect.at) {
            let text = format!("{} ran a job that was never there", effect.actor);
            findings.found(Rule::NotInvented, Some(effect.job), effect.at, text);
        }
    }
}

fn is_same(one: &Effect, other: &Effect) -> bool {
    let of = |effect: &Effect| (effect.generation, effect.attempt);
    of(one) == of(other) && one.actor == other.actor
}

fn runs<'a>(life: &Life, effects: &'a [Effect]) -> Vec<Run<'a>> {
    let begins = effects
        .iter()
        .enumerate()
        .filter(|(_, effect)| effect.edge == Edge::Begin);
    begins
        .map(|(at, begin)| {
            let later = effects[at + 1..]
                .iter()
                .filter(|effect| is_same(effect, begin));
            // The next word of the same run; a begin is that of another one.
            let end = later.take(1).find(|effect| effect.edge != Edge::Begin);
            let is_its = |stay: &Stay| {
                (stay.generation, stay.attempt) == (begin.generation, begin.attempt)
                    && *stay.actor == *begin.actor
                    && stay.from <= begin.at
            };
            Run {
                begin,
                end,
                stay: life.leases.iter().rposition(is_its),
            }
        })
        .collect()
}

/// A run begins under a claim, and not after its own worker gave the job up.
fn began(life: &Life, run: &Run<'_>, terms: &Terms, findings: &mut Findings) {
    let at = run.begin.at;
    let Some(stay) = run.stay.map(|stay| &life.leases[stay]) else {
        if !terms.forgives_run(at) {
            let text = format!(
                "{} ran attempt {} without a claim",
                run.begin.actor, run.begin.attempt
            );
            findings.found(Rule::Attempts, Some(life.job), at, text);
        }
        return;
    };
    if at > stay.to
        && !terms.forgives_run(at)
        && matches!(stay.was, Was::Charged { .. } | Was::Refunded { .. })
    {
        let text = format!(
            "it began {} µs after its worker had given it up",
            at - stay.to
        );
        findings.found(Rule::NoOverlap, Some(life.job), at, text);
    }
}

/// What became of a lease is what its handler said.
fn verdict(
    life: &Life,
    stay: &Stay,
    run: Option<&Run<'_>>,
    terms: &Terms,
    findings: &mut Findings,
) {
    // What a handler said after its job had been given away does not count.
    let end = run
        .and_then(|run| run.end)
        .filter(|end| end.at <= stay.to || stay.was == Was::Done);
    let said = end.map(|end| end.edge);
    let mut found = |rule: Rule, text: String| findings.found(rule, Some(life.job), stay.to, text);
    let told = || match (run, said) {
        (_, Some(edge)) => format!("its handler said {edge:?}"),
        (Some(_), None) => "its handler had not ended".to_owned(),
        (None, None) => "its handler had not begun".to_owned(),
    };
    match (&stay.was, said) {
        (Was::Held | Was::Reaped | Was::ReapedDead, _) => {}
        (Was::Done, Some(Edge::Done)) => {}
        (Was::Done, _) => found(Rule::Verdict, format!("done, and {}", told())),
        (Was::Charged { .. }, Some(Edge::Retry)) => {}
        (Was::Charged { .. } | Was::Dead { .. }, Some(Edge::Outage | Edge::Snooze))
            if !is_manual(&stay.was) =>
        {
            found(
                Rule::OutageFree,
                format!("attempt {} was charged, and {}", stay.attempt, told()),
            );
        }
        // Given back so often that it counts.
        (Was::Charged { refunds }, None) if *refunds >= terms.refunds && run.is_some() => {}
        (Was::Charged { .. }, _) => found(Rule::Verdict, format!("charged, and {}", told())),
        (Was::Refunded { .. }, Some(Edge::Snooze | Edge::Outage)) => {}
        (Was::Refunded { .. }, Some(_)) if !terms.is_calm => {}
        (Was::Refunded { .. }, Some(_)) => {
            found(Rule::Verdict, format!("given back, and {}", told()));
        }
        (Was::Refunded { .. }, None) if run.is_some() && stay.refunds >= terms.refunds => {
            found(
                Rule::Attempts,
                format!("given back for the {}th time", stay.refunds + 1),
            );
        }
        (Was::Refunded { .. }, None) => {}
        // A handler that ended has had its attempt, cancelled or not, unless its word was lost.
        (
            Was::Dead {
                is_refunded: true, ..
            },
            Some(_),
        ) if terms.is_calm => {
            found(Rule::Attempts, format!("given back, and {}", told()));
        }
        (
            Was::Dead {
                is_refunded: true, ..
            },
            _,
        ) => {}
        (Was::Dead { reason, .. }, said) => {
            let is_right = match (&**reason, said) {
                ("rejected", Some(Edge::Reject)) => true,
                ("exhausted", Some(Edge::Retry)) => true,
                // Given back too often, with no attempt left.
                ("exhausted", None) => stay.refunds >= terms.refunds,
                ("manual", Some(said)) => said != Edge::Done || !terms.is_calm,
                // Charged although it was given back: too often, as above.
                ("manual", None) if run.is_some() => stay.refunds >= terms.refunds,
                // Its handler's own transaction could not begin.
                ("manual", None) => !terms.is_calm,
                _ => false,
            };
            if !is_right {
                found(Rule::Reason, format!("{reason}, and {}", told()));
            }
        }
    }
}

fn is_manual(was: &Was) -> bool {
    matches!(was, Was::Dead { reason, .. } if &**reason == "manual")
}

/// Two runs at a time, where nothing was done to anybody.
fn overlaps(life: &Life, runs: &[Run<'_>], terms: &Terms, findings: &mut Findings) {
    for (at, younger) in runs.iter().enumerate() {
        let is_open = |older: &&Run<'_>| older.end.is_some_and(|end| end.at > younger.begin.at);
        if let Some(older) = runs[..at].iter().find(is_open) {
            findings.tally.overlaps += 1;
            if terms.is_calm {
                let text = format!(
                    "{} ran it while {} did",
                    younger.begin.actor, older.begin.actor
                );
                findings.found(Rule::NoOverlap, Some(life.job), younger.begin.at, text);
            }
        }
        if let (Some(stay), Some(end)) = (younger.stay, younger.end)
            && life.leases[stay].crashes > 0
        {
            findings
                .suspects
                .push((younger.begin.actor.clone(), younger.begin.at, end.at));
        }
    }
}

/// A handler's own transaction and the end of its job are one.
fn own(life: &Life, effects: &[Effect], records: &Records, findings: &mut Findings) {
    let written = records
        .own
        .range((life.job, i32::MIN)..=(life.job, i32::MAX));
    for (&(_, generation), &times) in written {
        if times != 1 || !life.done.contains(&generation) {
            let text = format!(
                "generation {generation} left {times} effects, and was done in {:?}",
                life.done
            );
            findings.found(Rule::OneTransaction, Some(life.job), 0, text);
        }
    }
    // An id that was lost may be somebody else's.
    let is_own = |effect: &Effect| effect.is_own && !records.terms.forgives_run(effect.at);
    if effects.iter().any(is_own) {
        for generation in &life.done {
            if !records.own.contains_key(&(life.job, *generation)) {
                let text = format!("generation {generation} is done and left no effect");
                findings.found(Rule::OneTransaction, Some(life.job), 0, text);
            }
        }
    }
}
