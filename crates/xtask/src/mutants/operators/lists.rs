//! Operators on the columns of INSERT and the assignments of UPDATE.

use std::ops::Range;

use super::{Edit, Edits};
use crate::mutants::code::Code;

/// The largest distance of SET from UPDATE: a name with its schema, AS and an alias.
const NAME: usize = 6;

/// Items of a list, as ranges of tokens.
type Items = Vec<Range<usize>>;

/// Drops each column of each INSERT with its value.
pub(super) fn dropped_columns(code: &Code<'_>) -> Vec<Edits> {
    (0..code.tokens.len())
        .filter_map(|at| insert(code, at))
        .flat_map(|lists| dropped(code, &lists))
        .collect()
}

/// Drops each assignment of each UPDATE that has several.
pub(super) fn dropped_assignments(code: &Code<'_>) -> Vec<Edits> {
    let dropped = |items| dropped(code, &[items]);
    assignments(code).into_iter().flat_map(dropped).collect()
}

/// Drops each item of lists that belong together, unless it is the only one.
fn dropped(code: &Code<'_>, lists: &[Items]) -> Vec<Edits> {
    let items = (0..lists[0].len()).filter(|_| lists[0].len() > 1);
    let one = |item| lists.iter().map(|list| without(code, list, item)).collect();
    items.map(one).collect()
}

/// Returns the assignments of each UPDATE, also those of ON CONFLICT DO UPDATE.
pub(super) fn assignments(code: &Code<'_>) -> Vec<Items> {
    let set = |update: usize| {
        let may_follow = update + 1..=update + NAME;
        let is_write = code.is(update, "UPDATE")
            && !code.is_before(update, "FOR")
            && !code.is_before(update, "KEY");
        may_follow
            .into_iter()
            .find(|at| is_write && code.is(*at, "SET"))
    };
    (0..code.tokens.len())
        .filter_map(set)
        .map(|set| {
            let end = code.end(set + 1, &["FROM", "WHERE", "RETURNING"]);
            code.items(set + 1..end)
        })
        .collect()
}

/// Returns the columns and the values of the INSERT at this token if each of its columns has a value.
fn insert(code: &Code<'_>, at: usize) -> Option<[Items; 2]> {
    if !(code.is(at, "INSERT") && code.is(at + 1, "INTO")) {
        return None;
    }
    let open = (at + 2..code.tokens.len()).find(|at| code.is(*at, "(") || code.is(*at, ";"))?;
    let close = code.close(open);
    let columns = code.items(open + 1..close);
    let values = match code.tokens.get(close + 1)?.text {
        "VALUES" => {
            let values = close + 2;
            let is_single = code.is(values, "(") && !code.is(code.after(values), ",");
            is_single.then(|| code.items(values + 1..code.close(values)))?
        }
        "SELECT" => {
            let mut first = close + 2;
            if code.is(first, "DISTINCT") {
                first = if code.is(first + 1, "ON") {
                    code.after(first + 2)
                } else {
                    first + 1
                };
            }
            let after = [
                "FROM",
                "WHERE",
                "GROUP",
                "HAVING",
                "ORDER",
                "LIMIT",
                "UNION",
                "ON",
                "RETURNING",
            ];
            code.items(first..code.end(first, &after))
        }
        _ => return None,
    };
    (columns.len() == values.len()).then_some([columns, values])
}

/// Removes an item of a list that has several, with one of its commas.
fn without(code: &Code<'_>, items: &[Range<usize>], item: usize) -> Edit {
    let place = |item: usize| code.place(&items[item]);
    let place = match items.get(item + 1) {
        Some(next) => place(item).start..code.place(next).start,
        None => place(item - 1).end..place(item).end,
    };
    Edit {
        place,
        with: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::operators::assert_changes;

    #[test]
    fn each_column_is_dropped_with_its_value() {
        assert_changes(
            dropped_columns,
            "
            INSERT INTO s.t AS x (a, b) SELECT f(1, 2), c FROM d
                => INSERT INTO s.t AS x (b) SELECT c FROM d
                => INSERT INTO s.t AS x (a) SELECT f(1, 2) FROM d
            INSERT INTO t (a, b) VALUES (1, 2) ON CONFLICT DO NOTHING
                => INSERT INTO t (b) VALUES (2) ON CONFLICT DO NOTHING
                => INSERT INTO t (a) VALUES (1) ON CONFLICT DO NOTHING
            INSERT INTO t (a) VALUES (1)
            INSERT INTO t (a, b) SELECT c.* FROM c
            INSERT INTO t (a, b) VALUES (1, 2), (3, 4)
            INSERT INTO t (a, b) SELECT DISTINCT ON (x) 1, 2
                => INSERT INTO t (b) SELECT DISTINCT ON (x) 2
                => INSERT INTO t (a) SELECT DISTINCT ON (x) 1
            ",
        );
    }

    #[test]
    fn each_assignment_is_dropped() {
        assert_changes(
            dropped_assignments,
            "
            UPDATE s.t AS x SET a = 1, b = 2 FROM c
                => UPDATE s.t AS x SET b = 2 FROM c
                => UPDATE s.t AS x SET a = 1 FROM c
            DO UPDATE SET a = 1 WHERE b
            SELECT a FOR NO KEY UPDATE
            ",
        );
    }
}
