//! Each promise of GUARANTEES.md has tests, and together they name every rule, fault and mutant of
//! `cargo xtask chaos`. `tidy::citations` checks that the tests exist.

use redrive_tests::prelude::*;

use super::quoted;

const EVIDENCE: &str = "tests/it/guarantees/evidence.md";

/// Returns what the promises name in the lines that begin like this.
fn named(kind: &str) -> BTreeSet<String> {
    let evidence = committed(EVIDENCE);
    let lines = evidence.lines().filter(|line| line.starts_with(kind));
    lines.flat_map(quoted).map(str::to_owned).collect()
}

#[test]
fn every_promise_has_tests() {
    let page = committed("GUARANTEES.md");
    let evidence = committed(EVIDENCE);
    let promises = page.lines().filter_map(|line| line.strip_prefix("### "));
    let promises: Vec<&str> = promises.collect();
    assert!(promises.len() >= 18, "{}", promises.len());
    for (number, promise) in (1..).zip(&promises) {
        assert!(promise.starts_with(&format!("P{number}. ")), "{promise}");
        let begin = format!("P{number}\n");
        let mut sections = evidence.split("\n## ");
        let tests = sections.find_map(|section| section.strip_prefix(&begin));
        has(tests.expect(promise), "\n- `");
    }
    assert!(!evidence.contains(&format!("\n## P{}\n", promises.len() + 1)));
}

#[test]
fn the_promises_name_exactly_the_rules_faults_and_mutants() {
    let rules = committed("tests/chaos/src/checker/rule.rs");
    let number = |text: &&str| text.strip_prefix('C').and_then(|n| n.parse::<u8>().ok());
    let rules = rules.split('"').filter(|text| number(text).is_some());
    let rules: Vec<String> = rules.map(str::to_owned).collect();
    assert!(rules.len() >= 22, "{}", rules.len());
    let numbers: BTreeSet<String> = rules.iter().cloned().collect();
    assert_eq!(numbers.len(), rules.len(), "two rules have one number");
    assert_eq!(named("- rules: "), numbers);

    let faults = committed("tests/chaos/src/fault.rs");
    let (_, faults) = faults.split_once("\nfaults! {").expect("the faults");
    let (faults, _) = faults.split_once("\n}").expect("their end");
    let faults = faults
        .lines()
        .filter_map(|line| line.trim().split_once(": "));
    let faults = faults.filter(|(name, _)| !name.starts_with("//"));
    let faults: BTreeSet<String> = faults.map(|(name, _)| kebab(name)).collect();
    assert!(faults.len() > 10, "{faults:?}");
    assert_eq!(named("- faults: "), faults);

    // A mutant begins with its name and its scenario.
    let mutants: BTreeSet<String> = committed("tests/chaos/src/mutant.rs")
        .lines()
        .filter(|line| line.contains("\" in ") && line.contains(" breaks ["))
        .filter_map(|line| Some(line.split('"').nth(1)?.to_owned()))
        .collect();
    assert!(mutants.len() >= 40, "{}", mutants.len());
    assert_eq!(named("- mutants: "), mutants);
}

/// Returns the name of a variant on the command line.
fn kebab(variant: &str) -> String {
    let mut name = String::new();
    for character in variant.chars() {
        if character.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.extend(character.to_lowercase());
    }
    name
}
