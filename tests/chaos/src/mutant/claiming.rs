//! Mutants of claiming: attempts, leases and suspects.

use super::{FunctionPatch, Mutant, Mutation, patch};
use crate::checker::Rule;
use crate::scenario::Scenario;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "promote-ignores-run-at",
        mutation: Mutation::Statements(&[patch(
            "promote",
            "d.run_at <= statement_timestamp()",
            "d.run_at <= statement_timestamp() + interval '1 day'",
        )]),
        scenario: Scenario::Work,
        rules: &[Rule::NotEarly],
    },
    Mutant {
        name: "claim-charges-no-attempt",
        mutation: Mutation::Functions(&[
            FunctionPatch {
                function: "redrive.jobs_of",
                changes: &[("(COALESCE(j.attempt, 0) + 1)", "GREATEST(j.attempt, 1)")],
            },
            FunctionPatch {
                function: "redrive.start_jobs",
                changes: &[("coalesce(j.attempt, 0) + 1", "greatest(j.attempt, 1)")],
            },
        ]),
        scenario: Scenario::Work,
        rules: &[Rule::Attempts],
    },
    Mutant {
        name: "lease-id-is-reused",
        mutation: Mutation::Statements(&[
            patch(
                "claim",
                "CASE WHEN p.fit THEN $7::uuid END",
                "CASE WHEN p.fit THEN coalesce($8::uuid, $7::uuid) END",
            ),
            patch(
                "claim_one",
                "SELECT $5, $6, $1",
                "SELECT coalesce($6, $5), $6, $1",
            ),
        ]),
        scenario: Scenario::Work,
        rules: &[Rule::Fenced],
    },
    Mutant {
        name: "suspects-share-a-lease",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.lease_jobs",
            changes: &[
                ("AND (u.crashes = 0", "AND (true"),
                ("CASE WHEN w.is_alone THEN w.place END", "NULL::bigint"),
            ],
        }]),
        scenario: Scenario::Poison,
        rules: &[Rule::SuspectsAlone],
    },
];
