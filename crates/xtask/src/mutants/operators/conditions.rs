//! Operators on conditions.

use std::ops::Range;

use super::{Edit, Edits};
use crate::mutants::code::{AFTER_CONDITION, Code};

/// Further keywords that end the condition of a join.
const AFTER_JOIN: [&str; 8] = [
    "JOIN", "LEFT", "RIGHT", "FULL", "CROSS", "INNER", "NATURAL", ",",
];

/// Turns each conjunct of WHERE, ON and HAVING into `true`.
pub(super) fn dropped(code: &Code<'_>) -> Vec<Edits> {
    (0..code.tokens.len())
        .filter_map(|at| clause(code, at))
        .flat_map(|clause| conjuncts(code, clause))
        .map(|part| vec![Edit::new(code, &part, "true")])
        .collect()
}

/// Negates the conditions of IF, ELSIF, WHILE, EXIT WHEN and CASE WHEN.
pub(super) fn negated(code: &Code<'_>) -> Vec<Edits> {
    let condition = |at: usize| {
        let is_if = code.is(at, "IF") && code.begins_a_statement(at);
        let is_when = code.is(at, "WHEN")
            && match code.case(at) {
                // `CASE x WHEN y` compares.
                Some(case) => code.is(case + 1, "WHEN"),
                None => code.is_before(at, "EXIT") || code.is_before(at, "CONTINUE"),
            };
        let has_condition = is_if || is_when || code.is(at, "ELSIF") || code.is(at, "WHILE");
        let condition = at + 1..code.end(at + 1, &["THEN", "LOOP"]);
        (has_condition && !condition.is_empty()).then_some(condition)
    };
    (0..code.tokens.len())
        .filter_map(condition)
        .map(|condition| {
            let not = format!("NOT ({})", code.source(&condition));
            vec![Edit::new(code, &condition, &not)]
        })
        .collect()
}

/// Returns the condition of the WHERE, HAVING or ON at this token.
fn clause(code: &Code<'_>, at: usize) -> Option<Range<usize>> {
    let is_join =
        code.is(at, "ON") && !code.is(at + 1, "CONFLICT") && !code.is_before(at, "DISTINCT");
    let clause = if is_join {
        at + 1..code.end(at + 1, &[AFTER_CONDITION, &AFTER_JOIN].concat())
    } else if code.is(at, "WHERE") || code.is(at, "HAVING") {
        at + 1..code.end(at + 1, AFTER_CONDITION)
    } else {
        return None;
    };
    // `ON CONFLICT (a) WHERE b DO` names an index.
    (!clause.is_empty() && !code.is(clause.end, "DO")).then_some(clause)
}

/// Splits a condition at its ANDs. A condition with an OR has one part.
fn conjuncts(code: &Code<'_>, clause: Range<usize>) -> Vec<Range<usize>> {
    let (mut parts, mut from, mut at) = (Vec::new(), clause.start, clause.start);
    let mut in_between = false;
    while at < clause.end {
        match code.tokens[at].text {
            "OR" => return vec![clause],
            "BETWEEN" => in_between = true,
            "AND" if in_between => in_between = false,
            "AND" => {
                parts.push(from..at);
                from = at + 1;
            }
            _ => {}
        }
        at = code.after(at);
    }
    parts.push(from..clause.end);
    parts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::operators::assert_changes;

    #[test]
    fn each_conjunct_is_dropped() {
        assert_changes(
            dropped,
            "
            SELECT a WHERE b AND c BETWEEN 1 AND 2 ORDER BY d
                => SELECT a WHERE true AND c BETWEEN 1 AND 2 ORDER BY d
                => SELECT a WHERE b AND true ORDER BY d
            a WHERE b OR c AND d;
                => a WHERE true;
            a JOIN b ON c CROSS JOIN d WHERE e
                => a JOIN b ON true CROSS JOIN d WHERE e
                => a JOIN b ON c CROSS JOIN d WHERE true
            count(*) FILTER (WHERE a) HAVING b
                => count(*) FILTER (WHERE true) HAVING b
                => count(*) FILTER (WHERE a) HAVING true
            SELECT DISTINCT ON (a) b ON CONFLICT (a) WHERE c DO NOTHING
            ",
        );
    }

    #[test]
    fn each_condition_is_negated() {
        assert_changes(
            negated,
            "
            BEGIN IF a THEN b; END IF;
                => BEGIN IF NOT (a) THEN b; END IF;
            CREATE TABLE IF NOT EXISTS a
            CASE WHEN a THEN b WHEN c THEN d END
                => CASE WHEN NOT (a) THEN b WHEN c THEN d END
                => CASE WHEN a THEN b WHEN NOT (c) THEN d END
            CASE a WHEN 1 THEN b END
            LOOP EXIT WHEN FOUND;
                => LOOP EXIT WHEN NOT (FOUND);
            EXCEPTION WHEN data_exception THEN NULL;
            ",
        );
    }
}
