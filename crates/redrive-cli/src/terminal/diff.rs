//! Differences between two payloads, line by line, with `-` and `+`.

use std::io::Write;

use similar::{ChangeTag, TextDiff};

use super::escape::clean;
use super::json::pretty;
use super::style::Style;
use crate::error::Result;

/// The unchanged lines shown around a change.
const CONTEXT_LINES: usize = 2;

/// Writes the lines that differ between two JSON texts, with some context.
pub(crate) fn diff(out: &mut dyn Write, style: Style, before: &str, after: &str) -> Result<()> {
    let (before, after) = (lines(before), lines(after));
    let diff = TextDiff::from_lines(&before, &after);
    for (index, group) in diff.grouped_ops(CONTEXT_LINES).iter().enumerate() {
        if index > 0 {
            writeln!(out, "    ...")?;
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let text = clean(change.value().trim_end_matches('\n'));
            match change.tag() {
                ChangeTag::Equal => writeln!(out, "    {text}")?,
                ChangeTag::Delete => writeln!(out, "{}", style.removed(&format!("  - {text}")))?,
                ChangeTag::Insert => writeln!(out, "{}", style.added(&format!("  + {text}")))?,
            }
        }
    }
    Ok(())
}

/// JSON as lines that differ only where a value differs, without commas.
fn lines(json: &str) -> String {
    let shown = pretty(json);
    let bare = shown
        .lines()
        .map(|line| line.strip_suffix(',').unwrap_or(line));
    bare.flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(before: &str, after: &str) -> String {
        let mut out = Vec::new();
        diff(&mut out, Style::plain(), before, after).expect("memory can be written");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn changed_lines_are_marked_with_signs() {
        let before = r#"{"a": 1, "b": {"c": "x", "d": [1, 2]}, "e": 1, "f": 1, "g": 1, "h": 1}"#;
        let after = r#"{"a": 1, "b": {"c": "y", "d": [1, 2]}, "e": 1, "f": 1, "g": 1, "h": 2}"#;
        let changed = [
            r#"      "a": 1"#,
            r#"      "b": {"#,
            r#"  -     "c": "x""#,
            r#"  +     "c": "y""#,
            r#"        "d": ["#,
            r"          1",
            r"    ...",
            r#"      "f": 1"#,
            r#"      "g": 1"#,
            r#"  -   "h": 1"#,
            r#"  +   "h": 2"#,
            r"    }",
            "",
        ];
        assert_eq!(shown(before, after), changed.join("\n"));
    }

    #[test]
    fn member_order_and_commas_are_not_changes() {
        let before = r#"{"cc": 1.50, "a": [{"y": 1, "x": "a,"}], "z": 12345678901234567890}"#;
        let after = r#"{"a":[{"x":"a,","y":1}],"cc":1.50,"z":12345678901234567890}"#;
        assert_eq!(shown(before, after), "");
        let without = r#"{"a":[{"x":"a,","y":1}],"cc":1.50}"#;
        let gone = shown(before, without);
        assert_eq!(
            gone.lines().filter(|line| line.starts_with("  - ")).count(),
            1,
            "{gone}"
        );
        assert!(
            gone.contains("12345678901234567890") && !gone.contains("  + "),
            "{gone}"
        );
    }
}
