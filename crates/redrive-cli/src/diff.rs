//! What changes in a payload, line by line: `-` and `+`, in red and green where there is colour.

use std::io::Write;

use similar::{ChangeTag, TextDiff};

use crate::error::Result;
use crate::render::{Looks, clean, pretty};

/// How many lines that stay are shown around those that change.
const AROUND: usize = 2;

/// Writes the lines of two JSON texts that differ, and a few around them.
pub(crate) fn diff(out: &mut dyn Write, looks: Looks, before: &str, after: &str) -> Result<()> {
    let (before, after) = (pretty(before), pretty(after));
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
        assert_eq!(
            shown(Looks::plain(), before, after),
            "      \"a\": 1,\n      \"b\": {\n  -     \"c\": \"x\",\n  +     \"c\": \"y\",\n        \"d\": [\n          1,\n    ...\n      \"f\": 1,\n      \"g\": 1,\n  -   \"h\": 1\n  +   \"h\": 2\n    }\n"
        );
        assert_eq!(shown(Looks::plain(), "{}", "{ }"), "");
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
