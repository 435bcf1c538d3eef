//! Operators that change one token: comparisons, steps by one and states.

use super::lists::assignments;
use super::{Edit, Edits};
use crate::mutants::code::Code;

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
pub(super) fn comparisons(code: &Code<'_>) -> Vec<Edits> {
    let assigned: Vec<usize> = assignments(code)
        .into_iter()
        .flatten()
        .filter_map(|item| item.clone().find(|at| code.is(*at, "=")))
        .collect();
    replaced(code, |at| {
        let (_, other) = COMPARISONS.iter().find(|(one, _)| code.is(at, one))?;
        (!assigned.contains(&at)).then(|| (*other).to_owned())
    })
}

/// Turns `a + 1` and `a - 1` into `a + 0` and `a - 0`.
pub(super) fn steps(code: &Code<'_>) -> Vec<Edits> {
    let is_end = |c: char| c.is_alphanumeric() || "_)]'\"".contains(c);
    replaced(code, |at| {
        let operand = code.tokens.get(at.checked_sub(2)?)?;
        let is_step = operand.text.ends_with(is_end)
            && (code.is_before(at, "+") || code.is_before(at, "-"))
            && code.is(at, "1");
        is_step.then(|| "0".to_owned())
    })
}

/// Turns a state into another one.
pub(super) fn states(code: &Code<'_>) -> Vec<Edits> {
    replaced(code, |at| {
        let word = code.tokens.get(at)?.text;
        let word = word.strip_prefix('\'')?.strip_suffix('\'')?;
        let (_, other) = STATES.iter().find(|(state, _)| *state == word)?;
        Some(format!("'{other}'"))
    })
}

/// Replaces each token for which there is another text.
fn replaced(code: &Code<'_>, other: impl Fn(usize) -> Option<String>) -> Vec<Edits> {
    let edit = |at| Some(vec![Edit::new(code, &(at..at + 1), &other(at)?)]);
    (0..code.tokens.len()).filter_map(edit).collect()
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
            f(-1), a * -1, b := -1, a + 10
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
