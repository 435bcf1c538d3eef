//! What changes in a payload, line by line: `-` and `+`, in red and green where there is colour.

use std::collections::BTreeMap;
use std::io::Write;

use serde_json::value::RawValue;
use similar::{ChangeTag, TextDiff};

use crate::error::Result;
use crate::render::{Looks, clean, pretty};

/// How many lines that stay are shown around those that change.
const AROUND: usize = 2;

/// Writes the lines of two JSON texts that differ, and a few around them.
pub(crate) fn diff(out: &mut dyn Write, looks: Looks, before: &str, after: &str) -> Result<()> {
    let (before, after) = (lines(before), lines(after));
    let diff = TextDiff::from_lines(&before, &after);
    for (index, group) in diff.grouped_ops(AROUND).iter().enumerate() {
        if index > 0 {
            writeln!(out, "    ...")?;
        }
        for change in group.iter().flat_map(|op| diff.iter_changes(op)) {
            let text = clean(change.value().trim_end_matches('\n'));
            match change.tag() {
                ChangeTag::Equal => writeln!(out, "    {text}")?,
                ChangeTag::Delete => writeln!(out, "{}", looks.gone(&format!("  - {text}")))?,
                ChangeTag::Insert => writeln!(out, "{}", looks.added(&format!("  + {text}")))?,
            }
        }
    }
    Ok(())
}

/// JSON in lines that differ only where a value does: members in one order, and no commas, which
/// move when the last member does.
fn lines(json: &str) -> String {
    let shown = pretty(&sorted(json));
    let bare = shown
        .lines()
        .map(|line| line.strip_suffix(',').unwrap_or(line));
    bare.flat_map(|line| [line, "\n"]).collect()
}

/// The same JSON with the members of its objects sorted; numbers and strings stay as they are.
fn sorted(json: &str) -> String {
    let within =
        |open: char, parts: Vec<String>, close: char| format!("{open}{}{close}", parts.join(","));
    if let Ok(members) = serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(json) {
        let member = |name: &String, value: &RawValue| {
            // A name is text, and that can be written.
            let name = serde_json::to_string(name).unwrap_or_default();
            format!("{name}:{}", sorted(value.get()))
        };
        let written = members.iter().map(|(name, value)| member(name, value));
        within('{', written.collect(), '}')
    } else if let Ok(items) = serde_json::from_str::<Vec<Box<RawValue>>>(json) {
        within(
            '[',
            items.iter().map(|item| sorted(item.get())).collect(),
            ']',
        )
    } else {
        json.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(looks: Looks, before: &str, after: &str) -> String {
        let mut out = Vec::new();
        diff(&mut out, looks, before, after).expect("memory can be written");
        String::from_utf8(out).expect("UTF-8")
    }

    #[test]
    fn what_changes_reads_well_without_colour() {
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
        assert_eq!(shown(Looks::plain(), before, after), changed.join("\n"));
    }

    #[test]
    fn neither_the_order_of_members_nor_a_comma_is_a_change() {
        let before = r#"{"cc": 1.50, "a": [{"y": 1, "x": "a,"}], "z": 12345678901234567890}"#;
        let after = r#"{"a":[{"x":"a,","y":1}],"cc":1.50,"z":12345678901234567890}"#;
        assert_eq!(shown(Looks::plain(), before, after), "");
        let without = r#"{"a":[{"x":"a,","y":1}],"cc":1.50}"#;
        let gone = shown(Looks::plain(), before, without);
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

    #[test]
    fn colour_is_beside_the_signs_and_never_of_the_payload() {
        let shown = shown(Looks::coloured(), "\"a\u{1b}[31m\"", "\"b\"");
        assert!(
            shown.contains("\u{1b}[31m  - \"a\\u001b[31m\"\u{1b}[0m"),
            "{shown:?}"
        );
        assert!(shown.contains("\u{1b}[32m  + \"b\"\u{1b}[0m"), "{shown:?}");
    }
}
