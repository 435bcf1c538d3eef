//! Each promise of GUARANTEES.md names its tests, and together they name every rule, fault and
//! mutant.

use std::collections::BTreeSet;

use super::{quoted, read, read_all};

/// The rules, faults and mutants that the promises name.
struct Named {
    rules: BTreeSet<String>,
    faults: BTreeSet<String>,
    mutants: BTreeSet<String>,
}

fn named() -> Named {
    let page = read("GUARANTEES.md");
    let all = |kind: &str| {
        page.lines()
            .filter(|line| line.starts_with(kind))
            .flat_map(quoted)
            .map(str::to_owned)
            .collect()
    };
    Named {
        rules: all("- rules: "),
        faults: all("- faults: "),
        mutants: all("- mutants: "),
    }
}

#[test]
fn every_promise_names_its_tests_and_faults() {
    let page = read("GUARANTEES.md");
    let (_, promises) = page.split_once("## What it promises\n").expect("promises");
    let (promises, _) = promises.split_once("\n## ").expect("their end");
    let promises: Vec<&str> = promises.split("\n### ").skip(1).collect();
    assert!(promises.len() >= 15, "{}", promises.len());
    for (number, promise) in (1..).zip(&promises) {
        assert!(promise.starts_with(&format!("P{number}. ")), "{promise}");
        assert!(promise.contains("\n- tests: `"), "{promise}");
        assert!(promise.contains("\n- faults: `"), "{promise}");
    }
}

#[test]
fn the_promises_name_exactly_the_rules_faults_and_mutants() {
    let named = named();
    let rules = read("tests/chaos/src/checker/rule.rs");
    let rules: BTreeSet<String> = rules
        .split('"')
        .filter(|text| {
            text.strip_prefix('C')
                .is_some_and(|n| n.parse::<u8>().is_ok())
        })
        .map(str::to_owned)
        .collect();
    assert!(rules.len() >= 22, "{}", rules.len());
    assert_eq!(named.rules, rules);

    let faults = read("tests/chaos/src/fault.rs");
    let (_, faults) = faults.split_once("enum Fault {").expect("the faults");
    let (faults, _) = faults.split_once("\n}").expect("their end");
    let faults: BTreeSet<String> = faults
        .lines()
        .map(|line| line.trim().trim_end_matches(','))
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .map(kebab)
        // A standby cannot keep a promise about commits it has not received.
        .filter(|fault| fault != "promote")
        .collect();
    assert!(faults.len() > 15, "{faults:?}");
    assert_eq!(named.faults, faults);

    let mutants: BTreeSet<String> = read_all("tests/chaos/src/mutant")
        .lines()
        .filter_map(|line| line.trim().strip_prefix("name: \""))
        .map(|line| line.trim_end_matches("\",").to_owned())
        .collect();
    assert!(mutants.len() >= 80, "{}", mutants.len());
    assert_eq!(named.mutants, mutants);
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

#[test]
fn exactly_once_is_promised_only_within_the_same_database() {
    for file in ["GUARANTEES.md", "README.md"] {
        for paragraph in read(file).split("\n\n") {
            let paragraph = paragraph.to_lowercase();
            assert!(
                !paragraph.contains("exactly once")
                    || paragraph.contains("same database")
                    || paragraph.contains("not run a handler exactly once"),
                "{file}: {paragraph}"
            );
        }
    }
}
