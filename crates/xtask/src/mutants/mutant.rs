//! The mutants: their identity, and the choice of a sample.

use std::collections::BTreeMap;

use super::operators::{Change, apply, changes};
use super::source::Source;

/// A statement or a function with one change.
#[derive(Clone, Debug)]
pub(super) struct SqlMutant<'a> {
    pub(super) source: &'a Source,
    pub(super) operator: &'static str,
    /// Stays the same while the line and the change do.
    pub(super) id: String,
    /// The line in the file.
    pub(super) line: usize,
    /// The text of that line, without the change.
    pub(super) code: String,
    /// The replaced text, and its replacement.
    pub(super) change: String,
    /// The changed statement or function.
    pub(super) text: String,
}

impl SqlMutant<'_> {
    /// Whether a filter of the command line selects it: its identity, or a part of its path or name.
    pub(super) fn matches(&self, filter: &str) -> bool {
        self.id == filter || self.source.path.contains(filter) || self.source.name == filter
    }
}

/// Returns all mutants of the sources, in the order of files and lines.
pub(super) fn mutants(sources: &[Source]) -> Vec<SqlMutant<'_>> {
    let mut known = BTreeMap::new();
    let all = sources.iter().flat_map(|source| {
        let changes = changes(&source.text, source.body);
        changes.into_iter().map(move |change| (source, change))
    });
    all.map(|(source, change)| mutant(source, &change, &mut known))
        .collect()
}

/// Chooses this many mutants. The same seed chooses the same ones.
pub(super) fn sample<'a>(
    mut mutants: Vec<SqlMutant<'a>>,
    size: usize,
    seed: &str,
) -> Vec<SqlMutant<'a>> {
    mutants.sort_by_cached_key(|mutant| hash(&[seed, &mutant.id]));
    mutants.truncate(size);
    mutants
}

fn mutant<'a>(
    source: &'a Source,
    change: &Change,
    known: &mut BTreeMap<String, usize>,
) -> SqlMutant<'a> {
    let start = change.edits.first().map_or(0, |edit| edit.place.start);
    let line_start = source.text[..start].rfind('\n').map_or(0, |at| at + 1);
    let code = source.text[line_start..]
        .lines()
        .next()
        .unwrap_or_default()
        .trim();
    let described = described(&source.text, change);
    let name = change.operator;
    let key = [&*source.path, &*source.name, name, code, &*described].join("\n");
    let count = known.entry(key.clone()).or_default();
    *count += 1;
    let id = hash(&[&key, &count.to_string()]);
    SqlMutant {
        source,
        operator: change.operator,
        id: format!("{:010x}", id >> 24),
        line: source.line + source.text[..start].matches('\n').count(),
        code: code.to_owned(),
        change: described,
        text: apply(&source.text, &change.edits),
    }
}

/// Describes a change as a person would: `>` → `>=`.
fn described(text: &str, change: &Change) -> String {
    let one_line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let edits = change.edits.iter().map(|edit| {
        let (old, new) = (one_line(&text[edit.place.clone()]), one_line(&edit.with));
        match (&*old, &*new) {
            ("", new) => format!("+ `{new}`"),
            (old, "") => format!("- `{old}`"),
            (old, new) => format!("`{old}` → `{new}`"),
        }
    });
    edits.collect::<Vec<_>>().join("; ")
}

/// FNV-1a, which no version of Rust changes.
fn hash(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}
