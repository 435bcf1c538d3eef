//! Operators on what a statement writes and locks.

use super::{Edit, Edits};
use crate::mutants::code::{AFTER_CONDITION, Code};

/// Makes each INSERT, UPDATE, DELETE and PERFORM affect no rows.
pub(super) fn skipped(code: &Code<'_>) -> Vec<Edits> {
    let skip = |at: usize| {
        let is_update = code.is(at, "UPDATE")
            && !["FOR", "KEY", "DO", "ON", "OR", "BEFORE", "AFTER"]
                .iter()
                .any(|word| code.is_before(at, word));
        if code.is(at, "INSERT") && code.is(at + 1, "INTO") {
            insert_nothing(code, at)
        } else if is_update
            || code.is(at, "DELETE") && code.is(at + 1, "FROM")
            || code.is(at, "PERFORM")
        {
            Some(vec![never(code, at + 1)])
        } else {
            None
        }
    };
    (0..code.tokens.len()).filter_map(skip).collect()
}

/// Drops each FOR UPDATE and FOR SHARE, and each SKIP LOCKED alone.
pub(super) fn without_locks(code: &Code<'_>) -> Vec<Edits> {
    let mut changes = Vec::new();
    for at in (0..code.tokens.len()).filter(|at| code.is(*at, "FOR")) {
        let mut end = at + 1;
        while ["NO", "KEY", "UPDATE", "SHARE"]
            .iter()
            .any(|word| code.is(end, word))
        {
            end += 1;
        }
        if end == at + 1 {
            continue;
        }
        if code.is(end, "OF") {
            end = code.end(end, &["SKIP", "NOWAIT", "LOOP"]);
        }
        let is_skipping = code.is(end, "SKIP");
        let last = match is_skipping {
            true => end + 2,
            false => end + usize::from(code.is(end, "NOWAIT")),
        };
        changes.push(vec![Edit::new(code, &(at..last), "")]);
        if is_skipping {
            changes.push(vec![Edit::new(code, &(end..last), "")]);
        }
    }
    changes
}

/// Returns the edits that make an INSERT store nothing, if it has one SELECT or one row of VALUES.
fn insert_nothing(code: &Code<'_>, at: usize) -> Option<Edits> {
    let source = code.end(at + 2, &["SELECT", "VALUES"]);
    if code.is(source, "SELECT") {
        return Some(vec![never(code, source + 1)]);
    }
    let open = source + 1;
    let close = code.close(open);
    let is_single = code.is(source, "VALUES") && code.is(open, "(") && !code.is(close + 1, ",");
    is_single.then(|| {
        vec![
            Edit::new(code, &(source..open + 1), "SELECT "),
            Edit::new(code, &(close..close + 1), " WHERE false"),
        ]
    })
}

/// Returns the edit that makes the condition of a statement false.
fn never(code: &Code<'_>, from: usize) -> Edit {
    let end = code.end(from, AFTER_CONDITION);
    if code.is(end, "WHERE") {
        let condition = end + 1..code.end(end + 1, AFTER_CONDITION);
        Edit::new(code, &condition, "false")
    } else {
        let end = code.place(&(from..end)).end;
        Edit {
            place: end..end,
            with: " WHERE false".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::operators::assert_changes;

    #[test]
    fn each_write_affects_no_rows() {
        assert_changes(
            skipped,
            "
            x AS (UPDATE t SET a = 1 WHERE b AND c RETURNING a)
                => x AS (UPDATE t SET a = 1 WHERE false RETURNING a)
            DELETE FROM t USING u;
                => DELETE FROM t USING u WHERE false;
            INSERT INTO t (a) SELECT b FROM c JOIN d ON e ORDER BY f
                => INSERT INTO t (a) SELECT b FROM c JOIN d ON e WHERE false ORDER BY f
            INSERT INTO t (a) SELECT b WHERE c ON CONFLICT (a) DO UPDATE SET a = 1
                => INSERT INTO t (a) SELECT b WHERE false ON CONFLICT (a) DO UPDATE SET a = 1
            INSERT INTO t (a) VALUES (f(1)) RETURNING a
                => INSERT INTO t (a) SELECT f(1) WHERE false RETURNING a
            INSERT INTO t (a) VALUES (1), (2)
            PERFORM f(a);
                => PERFORM f(a) WHERE false;
            SELECT a FROM b FOR UPDATE
            ",
        );
    }

    #[test]
    fn a_lock_and_its_skipping_are_dropped() {
        assert_changes(
            without_locks,
            "
            SELECT a FOR NO KEY UPDATE OF b, c SKIP LOCKED)
                => SELECT a )
                => SELECT a FOR NO KEY UPDATE OF b, c )
            SELECT a FOR SHARE NOWAIT;
                => SELECT a ;
            FOR a IN SELECT b FOR UPDATE LOOP
                => FOR a IN SELECT b  LOOP
            ",
        );
    }
}
