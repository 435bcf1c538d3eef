//! The mutation operators: small changes that a test should notice.
//!
//! They are pure functions of the text and of the types of the tables' columns.

mod conditions;
mod lists;
mod words;
mod writes;

use std::collections::BTreeMap;
use std::ops::Range;

use clap::ValueEnum;

use super::code::Code;

/// The type of each column, by table and column.
pub(super) type Types = BTreeMap<(String, String), String>;

/// A kind of change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(super) enum Operator {
    /// `<` becomes `<=`, `=` becomes `<>`.
    FlipComparison,
    /// `+ 1` becomes `+ 0`.
    OffByOne,
    /// A conjunct of WHERE, ON or HAVING becomes `true`.
    DropCondition,
    /// The condition of IF, WHILE, EXIT WHEN or CASE WHEN gets a NOT.
    NegateCondition,
    /// A column of an INSERT is dropped with its value.
    DropColumn,
    /// The values of two columns of the same type change places.
    SwapColumns,
    /// An assignment of an UPDATE is dropped.
    DropAssignment,
    /// An INSERT, UPDATE, DELETE or PERFORM affects no rows.
    SkipWrite,
    /// A state becomes another one.
    ChangeState,
    /// FOR UPDATE, or SKIP LOCKED, is dropped.
    DropLock,
}

impl Operator {
    pub(super) fn name(self) -> String {
        self.to_possible_value()
            .map(|value| value.get_name().to_owned())
            .unwrap_or_default()
    }
}

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

/// One mutation: edits in the order of their places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) operator: Operator,
    pub(super) edits: Vec<Edit>,
}

impl Change {
    /// A change that replaces some tokens.
    fn replace(operator: Operator, code: &Code<'_>, tokens: &Range<usize>, with: &str) -> Change {
        Change {
            operator,
            edits: vec![Edit::new(code, tokens, with)],
        }
    }

    /// Returns the changed text.
    pub(super) fn apply(&self, text: &str) -> String {
        let mut changed = text.to_owned();
        for edit in self.edits.iter().rev() {
            changed.replace_range(edit.place.clone(), &edit.with);
        }
        changed
    }
}

/// Returns all changes of a text from its byte `body` on.
pub(super) fn changes(text: &str, body: usize, types: &Types) -> Vec<Change> {
    let code = Code::new(text);
    let mut changes = words::comparisons(&code);
    changes.extend(words::steps(&code));
    changes.extend(words::states(&code));
    changes.extend(conditions::dropped(&code));
    changes.extend(conditions::negated(&code));
    changes.extend(lists::dropped_columns(&code));
    changes.extend(lists::swapped_columns(&code, types));
    changes.extend(lists::dropped_assignments(&code));
    changes.extend(writes::skipped(&code));
    changes.extend(writes::without_locks(&code));
    let start = |change: &Change| change.edits.first().map_or(0, |edit| edit.place.start);
    changes.retain(|change| start(change) >= body && change.apply(text) != text);
    changes.sort_by_key(|change| (start(change), change.operator));
    changes
}

/// Checks the changed texts of a family of operators: lines of text, each followed by what an arrow begins.
#[cfg(test)]
pub(super) fn assert_changes(operator: fn(&Code<'_>) -> Vec<Change>, cases: &str) {
    let lines = cases.lines().map(str::trim).filter(|line| !line.is_empty());
    let mut expected = lines.peekable();
    while let Some(text) = expected.next() {
        for change in operator(&Code::new(text)) {
            let changed = format!("=> {}", change.apply(text));
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
        let found = changes(text, body, &Types::new());
        let operators: Vec<String> = found.iter().map(|change| change.operator.name()).collect();
        assert_eq!(
            operators,
            ["off-by-one", "drop-condition", "flip-comparison"]
        );
    }
}
