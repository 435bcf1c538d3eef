//! Mutants of settling: verdicts, refunds and counters.

use super::{FunctionPatch, Mutant, Mutation, patch};
use crate::checker::Rule;
use crate::scenario::Scenario;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "settle-without-fence",
        mutation: Mutation::Statements(&[patch(
            "settle_done",
            "WHERE l.lease_id = ANY ($1::uuid[])\n        AND",
            "WHERE NOT EXISTS (
                 SELECT FROM redrive.leases own WHERE own.lease_id = ANY ($1::uuid[]))
                 OR l.lease_id = ANY ($1::uuid[]) AND",
        )]),
        scenario: Scenario::Pause,
        rules: &[Rule::Fenced],
    },
    Mutant {
        name: "settle-keeps-the-lease",
        mutation: Mutation::Statements(&[patch(
            "settle_done",
            "DELETE FROM redrive.leases l\n    WHERE",
            "UPDATE redrive.leases l SET worker_id = l.worker_id\n    WHERE",
        )]),
        scenario: Scenario::Work,
        rules: &[Rule::Verdict, Rule::NotStuck],
    },
    Mutant {
        name: "death-loses-the-letter",
        mutation: Mutation::Statements(&[patch(
            "settle",
            "'dead' AND (SELECT count(*) FROM letters) >= 0",
            "'dead' AND (SELECT count(*) FROM letters) >= 0 AND false",
        )]),
        scenario: Scenario::Work,
        rules: &[Rule::Verdict],
    },
    Mutant {
        name: "death-loses-the-class",
        mutation: Mutation::Statements(&[patch(
            "settle",
            "s.cause, s.error_class, s.error_message, s.error_detail",
            "s.cause, 'Error', s.error_message, s.error_detail",
        )]),
        scenario: Scenario::Work,
        rules: &[Rule::History],
    },
    Mutant {
        name: "history-loses-the-class",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.history_before",
            changes: &[(
                "CASE WHEN last -> 'error_class' = attempt -> 'error_class' THEN 'error_class' END",
                "'error_class'",
            )],
        }]),
        scenario: Scenario::Work,
        rules: &[Rule::History],
    },
    Mutant {
        name: "outage-charges-an-attempt",
        mutation: Mutation::Statements(&[patch(
            "settle",
            "WHEN s.verdict IN ('snooze', 'outage') OR",
            "WHEN s.verdict = 'snooze' OR",
        )]),
        scenario: Scenario::Work,
        rules: &[Rule::OutageFree],
    },
    Mutant {
        name: "retry-resets-attempts",
        mutation: Mutation::Statements(&[patch(
            "settle",
            "ELSE (j.job).attempt END,",
            "ELSE 0 END,",
        )]),
        scenario: Scenario::Work,
        rules: &[Rule::Attempts, Rule::Verdict],
    },
    Mutant {
        name: "recovery-is-not-recorded",
        mutation: Mutation::Statements(&[patch(
            "settle",
            "AND l.state || '' = 'redriving'",
            "AND l.state || '' = 'open'",
        )]),
        scenario: Scenario::Work,
        rules: &[Rule::Lineage],
    },
    Mutant {
        name: "transaction-keeps-the-lease",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.settle_own",
            changes: &[(
                "DELETE FROM redrive.leases l WHERE l.lease_id = settle_own.lease RETURNING l.queue INTO ended",
                "SELECT l.queue INTO ended FROM redrive.leases l WHERE l.lease_id = settle_own.lease",
            )],
        }]),
        scenario: Scenario::Work,
        rules: &[Rule::OneTransaction],
    },
    Mutant {
        name: "success-counts-twice",
        mutation: Mutation::Statements(&[patch(
            "settle_done",
            "sum(u.count)::bigint",
            "2 * sum(u.count)::bigint",
        )]),
        scenario: Scenario::Work,
        rules: &[Rule::Counters],
    },
    Mutant {
        name: "refunds-have-no-limit",
        mutation: Mutation::Statements(&[patch(
            "release",
            "CASE WHEN s.has_started AND j.refunds >= $6::integer THEN j.attempt ELSE j.attempt - 1 END",
            "j.attempt - 1",
        )]),
        scenario: Scenario::Release,
        rules: &[Rule::Attempts],
    },
];
