//! The mutation operators: small changes that a test should notice.
//!
//! They are pure functions of the text.

mod conditions;
mod lists;
mod words;
mod writes;

use std::ops::Range;

use super::code::Code;

/// The operators, each with its name.
const OPERATORS: [(&str, Operator); 9] = [
    ("flip-comparison", words::comparisons),
    ("off-by-one", words::steps),
    ("drop-condition", conditions::dropped),
    ("negate-condition", conditions::negated),
    ("drop-column", lists::dropped_columns),
    ("drop-assignment", lists::dropped_assignments),
    ("skip-write", writes::skipped),
    ("change-state", words::states),
    ("drop-lock", writes::without_locks),
];

/// Returns the mutations of a text.
type Operator = fn(&Code<'_>) -> Vec<Edits>;

/// The edits of one mutation, in the order of their places.
type Edits = Vec<Edit>;

/// A replacement of a part of the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    /// In bytes.
    pub(super) place: Range<usize>,
    pub(super) with: String,
}

impl Edit {
    /// An edit of some tokens.
    fn new(code: &Code<'_>, tokens: &Range<usize>, with: &str) -> Edit {
        Edit {
            place: code.place(tokens),
            with: with.to_owned(),
        }
    }
}

/// One mutation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    /// The name of its operator.
    pub(super) operator: &'static str,
    pub(super) edits: Edits,
}

/// Returns the changed text.
pub(super) fn apply(text: &str, edits: &[Edit]) -> String {
    let mut changed = text.to_owned();
    for edit in edits.iter().rev() {
        changed.replace_range(edit.place.clone(), &edit.with);
    }
    changed
}

/// Returns all changes of a text from its byte `body` on.
pub(super) fn changes(text: &str, body: usize) -> Vec<Change> {
    let code = Code::new(text);
    let of = |(name, operator): (&'static str, Operator)| {
        let all = operator(&code).into_iter();
        all.map(move |edits| Change {
            operator: name,
            edits,
        })
    };
    let start = |change: &Change| change.edits.first().map_or(0, |edit| edit.place.start);
    let mut changes: Vec<Change> = OPERATORS.into_iter().flat_map(of).collect();
    changes.retain(|change| start(change) >= body && apply(text, &change.edits) != text);
    changes.sort_by_key(start);
    changes
}

/// Checks the changed texts of an operator: lines of text, each followed by what an arrow begins.
#[cfg(test)]
pub(super) fn assert_changes(operator: Operator, cases: &str) {
    let lines = cases.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut expected = lines.peekable();
    while let Some(text) = expected.next() {
        for edits in operator(&Code::new(text)) {
            let changed = format!("=> {}", apply(text, &edits));
            assert_eq!(expected.next(), Some(&*changed), "{text}");
        }
        let more = expected.next_if(|line| line.starts_with("=> "));
        assert_eq!(more, None, "{text}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_body_of_a_function_changes_and_each_change_in_order() {
        let text = "CREATE FUNCTION f(a integer DEFAULT 1 + 1) AS $$ SELECT a + 1 WHERE a < 2 $$";
        let body = text.find("$$").expect("a body");
        let found = changes(text, body);
        let operators: Vec<&str> = found.iter().map(|change| change.operator).collect();
        assert_eq!(
            operators,
            ["off-by-one", "drop-condition", "flip-comparison"]
        );
    }
}
