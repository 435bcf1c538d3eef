//! Operators that change one token: comparisons, steps by one and states.

use super::lists::assignments;
use super::{Change, Operator};
use crate::mutants::code::Code;
use crate::mutants::lexer::{Kind, Token};

const COMPARISONS: [(&str, &str); 6] = [
    ("<", "<="),
    ("<=", "<"),
    (">", ">="),
    (">=", ">"),
    ("=", "<>"),
    ("<>", "="),
];

/// The states of letters, verdicts, runs, breakers, groups and retention, each with
/// another one that it may be confused with.
const STATES: [(&str, &str); 23] = [
    ("open", "discarded"),
    ("redriving", "open"),
    ("recovered", "discarded"),
    ("discarded", "recovered"),
    ("quarantined", "open"),
    ("done", "dead"),
    ("retry", "done"),
    ("outage", "retry"),
    ("snooze", "retry"),
    ("dead", "done"),
    ("running", "paused"),
    ("paused", "running"),
    ("halted", "paused"),
    ("cancelled", "finished"),
    ("finished", "cancelled"),
    ("unapproved", "running"),
    ("closed", "open"),
    ("half_open", "closed"),
    ("acknowledged", "resolved"),
    ("resolved", "ignored"),
    ("ignored", "resolved"),
    ("delete", "archive"),
    ("archive", "delete"),
];

/// Turns `<` into `<=`, and `=` into `<>`. The `=` of an assignment stays.
pub(super) fn comparisons(code: &Code<'_>) -> Vec<Change> {
    let assigned: Vec<usize> = assignments(code)
        .into_iter()
        .flatten()
        .filter_map(|item| item.clone().find(|at| code.is(*at, "=")))
        .collect();
    let flip = |at: usize, token: &Token<'_>| {
        let (_, other) = COMPARISONS.iter().find(|(one, _)| *one == token.text)?;
        let change = Change::replace(Operator::FlipComparison, code, &(at..at + 1), other);
        (token.kind == Kind::Operator && !assigned.contains(&at)).then_some(change)
    };
    let tokens = code.tokens.iter().enumerate();
    tokens.filter_map(|(at, token)| flip(at, token)).collect()
}

/// Turns `a + 1` and `a - 1` into `a + 0` and `a - 0`.
pub(super) fn steps(code: &Code<'_>) -> Vec<Change> {
    let is_step = |at: &usize| {
        let is_operand = code.tokens[*at - 1].kind != Kind::Operator
            && !["(", "[", ","].contains(&code.tokens[*at - 1].text);
        is_operand && (code.is(*at, "+") || code.is(*at, "-")) && code.is(*at + 1, "1")
    };
    (1..code.tokens.len())
        .filter(is_step)
        .map(|at| Change::replace(Operator::OffByOne, code, &(at + 1..at + 2), "0"))
        .collect()
}

/// Turns a state into another one.
pub(super) fn states(code: &Code<'_>) -> Vec<Change> {
    let other = |token: &Token<'_>| {
        let word = token.text.strip_prefix('\'')?.strip_suffix('\'')?;
        let (_, other) = STATES.iter().find(|(state, _)| *state == word)?;
        Some(format!("'{other}'"))
    };
    let tokens = code.tokens.iter().enumerate();
    tokens
        .filter_map(|(at, token)| Some((at, other(token)?)))
        .map(|(at, other)| Change::replace(Operator::ChangeState, code, &(at..at + 1), &other))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::operators::assert_changes;

    #[test]
    fn a_comparison_is_flipped_and_an_assignment_is_not() {
        assert_changes(
            comparisons,
            "
            a < b
                => a <= b
            a >= b -- a > b
                => a > b -- a > b
            a @> b, f(c => 1), 'a = b', x := 2
            UPDATE t SET a = 1, b = (c = 2) WHERE d <> 3
                => UPDATE t SET a = 1, b = (c <> 2) WHERE d <> 3
                => UPDATE t SET a = 1, b = (c = 2) WHERE d = 3
            ON CONFLICT (id) DO UPDATE SET a = excluded.a
            ",
        );
    }

    #[test]
    fn a_step_by_one_becomes_none() {
        assert_changes(
            steps,
            "
            a + 1
                => a + 0
            f(a) - 1
                => f(a) - 0
            f(-1), a * -1, a + 10
            ",
        );
    }

    #[test]
    fn a_state_becomes_another_one() {
        assert_changes(
            states,
            "
            a = 'open'
                => a = 'discarded'
            'the letter is open', open
            ",
        );
    }
}
