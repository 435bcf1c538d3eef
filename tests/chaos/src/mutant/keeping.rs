//! Mutants of waiting jobs, breakers, retention, the archive, redaction, policies and what letters count.

use super::{FunctionPatch, Mutant, Mutation, patch};
use crate::checker::Rule;
use crate::scenario::Scenario;

/// A mutant that changes one text of a function.
macro_rules! function {
    (name: $name:literal, $function:literal, $from:literal, $to:literal, $scenario:ident, $rule:ident) => {
        Mutant {
            name: $name,
            mutation: Mutation::Functions(&[FunctionPatch {
                function: $function,
                changes: &[($from, $to)],
            }]),
            scenario: Scenario::$scenario,
            rules: &[Rule::$rule],
        }
    };
}

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "open-breakers-are-not-read",
        mutation: Mutation::Statements(&[patch(
            "open_breakers",
            "WHERE b.state <> 'closed'",
            "WHERE b.state = 'none'",
        )]),
        scenario: Scenario::Outage,
        rules: &[Rule::Breaker],
    },
    Mutant {
        name: "probe-does-not-wait",
        mutation: Mutation::Statements(&[
            patch(
                "take_probe",
                "b.state <> 'closed' AND b.probe_at <= clock_timestamp()\n)",
                "b.state <> 'closed'\n)",
            ),
            patch(
                "take_probe",
                "AND b.probe_at <= clock_timestamp()\n    RETURNING",
                "\n    RETURNING",
            ),
            patch(
                "open_breakers",
                "greatest(0, extract(epoch FROM b.probe_at - clock_timestamp()) * 1000)::bigint END",
                "0::bigint END",
            ),
        ]),
        scenario: Scenario::Outage,
        rules: &[Rule::Breaker],
    },
    Mutant {
        name: "failed-probe-closes-the-breaker",
        mutation: Mutation::Statements(&[
            patch(
                "end_probe",
                "CASE $3 WHEN 'close' THEN 'closed' ELSE 'open' END",
                "CASE $3 WHEN 'give_back' THEN 'open' ELSE 'closed' END",
            ),
            patch(
                "end_probe",
                "CASE WHEN $3 <> 'close'",
                "CASE WHEN $3 = 'give_back'",
            ),
        ]),
        scenario: Scenario::Outage,
        rules: &[Rule::Breaker],
    },
    function!(
        name: "age-raises-at-once",
        "redrive.age_jobs",
        "waited_ms * interval '1 millisecond'",
        "0 * interval '1 millisecond'",
        Wait,
        Aged
    ),
    function!(
        name: "unhandled-includes-handled",
        "redrive.bury_unhandled",
        "'unhandled', 'unhandled', error_message",
        "'exhausted', 'unhandled', error_message",
        Wait,
        Cause
    ),
    Mutant {
        name: "expiry-charges-an-attempt",
        mutation: Mutation::Statements(&[patch("settle", " OR v.cause = 'expired' THEN", " THEN")]),
        scenario: Scenario::Wait,
        rules: &[Rule::Attempts],
    },
    function!(
        name: "erasure-keeps-the-key",
        "redrive.erase_batch",
        "DELETE FROM redrive.unique_keys k WHERE k.job_id = ANY (job_ids);",
        "",
        Wait,
        Leftover
    ),
    function!(
        name: "retention-ignores-the-age",
        "redrive.remove_letters",
        "l.changed_at < statement_timestamp() - $2",
        "l.changed_at < statement_timestamp() + $2",
        Keep,
        Retention
    ),
    function!(
        name: "archive-loses-the-letter",
        "redrive.remove_locked",
        "WHERE remove_locked.action = 'archive'",
        "WHERE remove_locked.action = 'none'",
        Keep,
        Retention
    ),
    function!(
        name: "archive-loses-the-headers",
        "redrive.archive_json",
        "IF whole.headers IS NOT NULL THEN",
        "IF false THEN",
        Keep,
        Retention
    ),
    function!(
        name: "restore-keeps-the-archive",
        "redrive.restore_archived",
        "DELETE FROM redrive.archived_letters a WHERE a.id = ANY (free);",
        "",
        Keep,
        Retention
    ),
    function!(
        name: "redaction-skips-the-message",
        "redrive.redact",
        "letter.error_message := redrive.redact_text(letter.error_message, pattern);",
        "",
        Keep,
        Redaction
    ),
    function!(
        name: "policy-ignores-its-batch",
        "redrive.due_letters",
        "LIMIT $7",
        "LIMIT 2 * $7",
        Keep,
        PolicyTick
    ),
    function!(
        name: "policy-takes-the-newest",
        "redrive.due_letters",
        "ORDER BY l.died_at, l.id LIMIT",
        "ORDER BY l.died_at DESC, l.id DESC LIMIT",
        Keep,
        PolicyTick
    ),
    function!(
        name: "reopen-counts-no-death",
        "redrive.reopen",
        "NEW.deaths := OLD.deaths + 1;",
        "NEW.deaths := OLD.deaths;",
        Carry,
        LetterCounts
    ),
    function!(
        name: "quarantine-comes-late",
        "redrive.reopen",
        "NEW.alike >= 3",
        "NEW.alike >= 4",
        Carry,
        LetterCounts
    ),
    function!(
        name: "discard-keeps-the-time",
        "redrive.discard_letters",
        "audit_id = operation, changed_at = clock_timestamp(),",
        "audit_id = operation,",
        Keep,
        Unpredicted
    ),
];
