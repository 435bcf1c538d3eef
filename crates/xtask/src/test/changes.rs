//! What a change needs: the files that differ from main, and the tests that they add or touch.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::Result;

use crate::cargo::git;
use crate::interrupt::Interrupt;

/// Where main may be: in a clone for a landing, and in a checkout.
const MAINS: [&str; 2] = ["origin/main", "main"];
/// The integration tests that a file needs whose path begins like this, besides the tests that the change touches. The
/// first one that fits counts. `PART` stands for the Rust and the SQL of the library.
const NEEDED: &[(&str, &str)] = &[
    ("crates/redrive/PART/dlq/", "dlq::"),
    ("crates/redrive/PART/db/", "db::"),
    ("crates/redrive/PART/pipeline/", "pipeline::"),
    ("crates/redrive/PART/schedule", "schedule::"),
    ("crates/redrive/PART/admin", "inspect::"),
    ("crates/redrive/PART/worker", "worker::"),
    ("crates/redrive/PART/metrics", "metrics::"),
    ("crates/redrive-cli/", "cli::"),
    ("crates/redrive-exporter/", "exporter::"),
    ("migrations/", "db::(migrate|schema|statements|constraints)"),
];
/// The packages with unit tests, by their folders.
const PACKAGES: [(&str, &str); 6] = [
    ("crates/redrive/", "redrive"),
    ("crates/redrive-cli/", "redrive-cli"),
    ("crates/redrive-exporter/", "redrive-exporter"),
    ("crates/xtask/", "xtask"),
    ("tests/chaos/", "redrive-chaos"),
    ("tests/servers/", "redrive-servers"),
];

/// The files of the workspace that differ from main, with the lines that are new.
#[derive(Debug)]
pub(super) struct Changes(BTreeMap<String, Vec<RangeInclusive<usize>>>);

impl Changes {
    /// Returns what differs from main, or `None` if this is main or no checkout of git.
    pub(super) fn since_main(root: &Path, interrupt: &Interrupt) -> Option<Changes> {
        let git = |arguments: &[&str]| git(root, arguments, interrupt).ok();
        let head = git(&["rev-parse", "HEAD"])?;
        let is_clean = git(&["status", "--porcelain"])?.is_empty();
        let base = MAINS.iter().find_map(|main| {
            git(&["merge-base", "HEAD", main]).filter(|base| *base != head || !is_clean)
        })?;
        let diff = git(&["diff", "--unified=0", "--no-renames", base.trim()])?;
        let mut changes = Changes::of(&diff);
        // New files that git does not know yet.
        let new = git(&["ls-files", "--others", "--exclude-standard"])?;
        for file in new.lines() {
            changes.0.insert(file.to_owned(), vec![1..=usize::MAX]);
        }
        Some(changes)
    }

    fn of(diff: &str) -> Changes {
        let (mut files, mut file) = (BTreeMap::<_, Vec<_>>::new(), String::new());
        for line in diff.lines() {
            // A deleted file needs tests, too.
            if let Some(name) = ["--- a/", "+++ b/"]
                .iter()
                .find_map(|begin| line.strip_prefix(begin))
            {
                name.clone_into(&mut file);
                files.entry(file.clone()).or_default();
            } else if let Some(place) = line.strip_prefix("@@ ") {
                let new = place.split(' ').nth(1).and_then(range);
                files.entry(file.clone()).or_default().extend(new);
            }
        }
        Changes(files)
    }

    /// Whether a file below one of the folders changed.
    pub(super) fn touches(&self, prefixes: &[&str]) -> bool {
        let is_below = |file: &String| prefixes.iter().any(|prefix| file.starts_with(prefix));
        self.0.keys().any(is_below)
    }

    /// Returns the names of the test functions that the change adds or touches.
    pub(super) fn tests(&self, root: &Path) -> Result<BTreeSet<String>> {
        let mut names = BTreeSet::new();
        for (file, lines) in &self.0 {
            let path = root.join(file);
            if path.extension().is_none_or(|end| end != "rs") || !path.is_file() {
                continue;
            }
            names.extend(touched(&fs::read_to_string(&path)?, lines));
        }
        Ok(names)
    }

    /// Returns an expression of the test runner for what the changed files need.
    pub(super) fn filter(&self, root: &Path) -> Result<String> {
        let mut parts: BTreeSet<String> =
            self.tests(root)?.iter().map(|name| exactly(name)).collect();
        for file in self.0.keys() {
            let any = file.replacen("redrive/src/", "redrive/PART/", 1);
            let any = any.replacen("redrive/sql/", "redrive/PART/", 1);
            let needed = NEEDED.iter().find(|(prefix, _)| any.starts_with(prefix));
            parts.extend(needed.map(|(_, tests)| format!("test(/^{tests}/)")));
            let of = PACKAGES.iter().find(|(folder, _)| file.starts_with(folder));
            parts.extend(of.map(|(_, package)| format!("(package({package}) and not kind(test))")));
        }
        // The rules of the repository read every file.
        parts.insert("test(/^tidy::/)".to_owned());
        Ok(parts.into_iter().collect::<Vec<_>>().join(" or "))
    }
}

/// Selects the tests with this name in any module.
pub(super) fn exactly(name: &str) -> String {
    format!("test(/(^|::){name}$/)")
}

/// `+7,2` or `+7`.
fn range(new: &str) -> Option<RangeInclusive<usize>> {
    let (from, count) = match new.strip_prefix('+')?.split_once(',') {
        Some((from, count)) => (from.parse().ok()?, count.parse().ok()?),
        None => (new.strip_prefix('+')?.parse().ok()?, 1),
    };
    let (from, count): (usize, usize) = (from, count);
    // A deletion is between two lines.
    Some(from..=from + count.max(1) - 1)
}

/// The test functions of a file with a line in one of the ranges.
fn touched(text: &str, changed: &[RangeInclusive<usize>]) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut names = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        if line.trim() != "#[test]" {
            continue;
        }
        let indent = &line[..line.len() - line.trim_start().len()];
        let end = format!("{indent}}}");
        let length = lines[at..].iter().position(|line| *line == end);
        let last = at + length.unwrap_or(0);
        // Lines count from 1.
        let is_touched =
            |range: &RangeInclusive<usize>| *range.start() <= last + 1 && at < *range.end();
        let name = lines[at..=last].iter().find_map(|line| {
            let (_, rest) = line.trim_start().split_once("fn ")?;
            rest.split(['(', '<']).next()
        });
        if changed.iter().any(is_touched) {
            names.extend(name.map(str::to_owned));
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "\
diff --git a/tests/it/a.rs b/tests/it/a.rs
--- a/tests/it/a.rs
+++ b/tests/it/a.rs
@@ -3,0 +4,2 @@ fn x()
+one
+two
@@ -9 +11 @@
-old
+new
diff --git a/crates/redrive/src/dlq/gone.rs b/crates/redrive/src/dlq/gone.rs
--- a/crates/redrive/src/dlq/gone.rs
+++ /dev/null
@@ -1,2 +0,0 @@
-gone
";

    #[test]
    fn a_diff_names_files_and_lines() {
        let changes = Changes::of(DIFF);
        let files: Vec<&String> = changes.0.keys().collect();
        assert_eq!(files, ["crates/redrive/src/dlq/gone.rs", "tests/it/a.rs"]);
        assert_eq!(changes.0["tests/it/a.rs"], [4..=5, 11..=11]);
        assert!(changes.touches(&["alerts/", "crates/redrive/"]));
        assert!(!changes.touches(&["alerts/", "grafana/"]));
        let filter = changes.filter(Path::new("/nonexistent")).expect("a filter");
        assert_eq!(
            filter,
            "(package(redrive) and not kind(test)) or test(/^dlq::/) or test(/^tidy::/)"
        );
    }

    #[test]
    fn a_test_is_touched_from_its_attribute_to_its_end() {
        let text = "\
fn free() {
}

#[test]
fn first() {
    body();
}

mod tests {
    #[test]
    #[ignore]
    fn second() {
        if x {
        }
    }
}
";
        let at = |line: usize| touched(text, &[line..=line]);
        assert_eq!(at(1), [""; 0]);
        for line in 4..=7 {
            assert_eq!(at(line), ["first"], "line {line}");
        }
        assert_eq!(at(9), [""; 0]);
        for line in 10..=15 {
            assert_eq!(at(line), ["second"], "line {line}");
        }
        assert_eq!(touched(text, &[1..=usize::MAX]), ["first", "second"]);
    }
}
