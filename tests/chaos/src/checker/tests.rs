//! Correct histories have no violations, and each broken one violates a rule.

mod notation;
mod samples;
mod defects;

use super::*;
use samples::retried;

use crate::mutant::MUTANTS;

fn rules(records: &Records) -> Vec<Rule> {
    let violations = check(records).violations;
    let mut rules: Vec<Rule> = violations.iter().map(|violation| violation.rule).collect();
    rules.dedup();
    // Most samples end with a live job.
    rules.retain(|rule| *rule != Rule::NotStuck);
    rules
}

#[test]
fn a_history_violates_its_rule_once_it_is_broken() {
    for (what, life, change, rule) in defects::BROKEN {
        let mut records = life();
        let found = rules(&records);
        assert!(!found.contains(rule), "before {what}: {found:?}");
        change(&mut records);
        let found = rules(&records);
        assert!(found.contains(rule), "{what}: {found:?}");
    }
}

#[test]
fn what_a_fault_or_a_late_commit_excuses_violates_no_rule() {
    for (what, life, change, rule) in defects::EXCUSED {
        let mut records = life();
        change(&mut records);
        let found = rules(&records);
        assert!(!found.contains(rule), "{what}: {found:?}");
    }
}

#[test]
fn every_rule_is_broken_by_some_history_or_mutant() {
    let by_mutants = MUTANTS.iter().flat_map(|mutant| mutant.rules);
    let by_histories = defects::BROKEN.iter().map(|(.., rule)| rule);
    let broken: HashSet<&Rule> = by_histories.chain(by_mutants).collect();
    for rule in Rule::ALL {
        assert!(broken.contains(rule), "{rule}");
    }
}

#[test]
fn a_job_that_is_ready_at_the_end_is_stuck() {
    let violations = check(&retried()).violations;
    assert!(violations.iter().any(|one| one.rule == Rule::NotStuck));
}
