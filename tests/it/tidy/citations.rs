//! Citations: a test that a page names exists.

use std::collections::BTreeSet;

use super::{assert_none, files, read, root, shown};

/// Returns the path of every integration test, such as `dlq::discard::a_discard_requires_a_reason_and_stores_it`.
pub(crate) fn tests() -> BTreeSet<String> {
    let mut tests = BTreeSet::new();
    for path in files("tests/it", &["rs"]) {
        let file = shown(&path);
        let module = file.trim_start_matches("tests/it/").trim_end_matches(".rs");
        let module = module.replace('/', "::");
        for test in read(&path).split("#[test]\n").skip(1) {
            if let Some((_, name)) = test.split_once("fn ")
                && let Some((name, _)) = name.split_once('(')
            {
                tests.insert(format!("{module}::{name}"));
            }
        }
    }
    // The scenarios of the models are listed in a macro, which makes each of them a test.
    let models = read(&root().join("tests/models/tests/schedules.rs"));
    let (_, scenarios) = models.split_once("s! {\n").expect("the scenarios");
    let (scenarios, _) = scenarios.split_once('}').expect("their end");
    let names = scenarios
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    tests.extend(names.map(|scenario| format!("schedules::{scenario}")));
    tests
}

#[test]
fn every_test_that_a_page_names_exists() {
    let tests = tests();
    let folders = tests.iter().filter_map(|test| test.split("::").next());
    let folders: BTreeSet<&str> = folders.collect();
    let mut offences = Vec::new();
    let mut cited = 0;
    for path in files("", &["md"]) {
        for (number, line) in (1..).zip(read(&path).lines()) {
            for name in line.split('`').skip(1).step_by(2) {
                let Some((module, leaf)) = name.rsplit_once("::") else {
                    continue;
                };
                // A path in the library is shorter than the name of a test.
                let (folder, _) = module.split_once("::").unwrap_or((module, ""));
                let is_test = folders.contains(folder) && leaf.matches('_').count() >= 3;
                if is_test && !tests.contains(name) {
                    offences.push(format!("{}:{number}: no test `{name}`", shown(&path)));
                }
                cited += usize::from(is_test);
            }
        }
    }
    assert!(cited > 100, "only {cited} tests are cited");
    assert_none(&offences);
}
