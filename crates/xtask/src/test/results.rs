//! What the test runner reports about each test, in the form of `JUnit`.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use roxmltree::{Document, Node, ParsingOptions};

/// How many lines of a failure the report shows.
const FIRST_LINES: usize = 4;

/// The results of a run.
#[derive(Debug, Default)]
pub(super) struct Results {
    pub(super) count: usize,
    pub(super) failed: Vec<Failure>,
    /// Tests that passed at the second try.
    pub(super) flaky: Vec<Failure>,
}

/// A test that failed once or twice.
#[derive(Debug)]
pub(super) struct Failure {
    /// Such as `dlq::discard::a_discard_requires_a_reason_and_stores_it`.
    pub(super) test: String,
    pub(super) first_lines: Vec<String>,
}

impl Results {
    pub(super) fn read(file: &Path) -> Result<Results> {
        let text =
            fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        Results::parse(&text).with_context(|| format!("{} is no report", file.display()))
    }

    fn parse(text: &str) -> Result<Results> {
        // Output of a test may look like a document type.
        let options = ParsingOptions {
            allow_dtd: true,
            ..ParsingOptions::default()
        };
        let document = Document::parse_with_options(text, options)?;
        let mut results = Results::default();
        for case in elements(document.root(), "testcase") {
            results.count += 1;
            if let Some(failure) = elements(case, "failure")
                .chain(elements(case, "error"))
                .next()
            {
                results.failed.push(Failure::of(case, failure));
            } else if let Some(failure) = elements(case, "flakyFailure").next() {
                results.flaky.push(Failure::of(case, failure));
            }
        }
        Ok(results)
    }
}

impl Failure {
    fn of(case: Node<'_, '_>, failure: Node<'_, '_>) -> Failure {
        // The output of a try that was repeated is inside of its element.
        let output = [failure, case]
            .into_iter()
            .find_map(|node| elements(node, "system-err").next());
        let output = output.and_then(|node| node.text()).unwrap_or_default();
        let message = failure.attribute("message").unwrap_or_default();
        Failure {
            test: case.attribute("name").unwrap_or_default().to_owned(),
            first_lines: first_lines(output, message),
        }
    }
}

fn elements<'a, 'input>(
    node: Node<'a, 'input>,
    name: &'static str,
) -> impl Iterator<Item = Node<'a, 'input>> {
    node.descendants()
        .filter(move |node| node.has_tag_name(name))
}

/// The panic and what follows it or, without a panic, the end of the output.
fn first_lines(output: &str, message: &str) -> Vec<String> {
    let lines: Vec<&str> = output
        .lines()
        .map(str::trim_end)
        .filter(|line| !line.is_empty())
        .collect();
    let panic = lines.iter().position(|line| line.contains("panicked at"));
    let from = panic.unwrap_or(lines.len().saturating_sub(FIRST_LINES));
    let shown = lines[from..].iter().take(FIRST_LINES);
    let shown: Vec<String> = shown.map(|&line| line.to_owned()).collect();
    if shown.is_empty() {
        return vec![message.to_owned()];
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="4">
  <testsuite name="redrive-tests::it">
    <testcase name="a::passes" classname="redrive-tests::it" time="0.1"/>
    <testcase name="a::fails" classname="redrive-tests::it">
      <failure message="thread panicked" type="test failure with exit code 101">long</failure>
      <system-out>running 1 test</system-out>
      <system-err>
noise

thread 'a::fails' panicked at tests/it/a.rs:7:5:
left &lt; right
 left: 1
right: 2
note: run with a backtrace
</system-err>
    </testcase>
    <testcase name="a::flaky" classname="redrive-tests::it">
      <flakyFailure message="m" type="test failure"><system-err>thread panicked at b.rs:1</system-err></flakyFailure>
    </testcase>
    <testcase name="a::hangs"><failure message="timed out" type="test timeout"/></testcase>
  </testsuite>
</testsuites>"#;

    #[test]
    fn failures_and_flaky_tests_are_found_with_their_first_lines() {
        let results = Results::parse(REPORT).expect("a report");
        let told = |failures: &[Failure]| {
            let told = failures
                .iter()
                .map(|one| format!("{}: {}", one.test, one.first_lines.join("|")));
            told.collect::<Vec<_>>()
        };
        assert_eq!(results.count, 4);
        let panic = "a::fails: thread 'a::fails' panicked at tests/it/a.rs:7:5:|left < right| left: 1|right: 2";
        assert_eq!(told(&results.failed), [panic, "a::hangs: timed out"]);
        assert_eq!(
            told(&results.flaky),
            ["a::flaky: thread panicked at b.rs:1"]
        );
        Results::parse("<testsuites>").expect_err("a truncated report");
    }
}
