//! Mutants of claiming: attempts, leases and suspects.

use super::{Mutant, Mutation, patch};
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
        mutation: Mutation::Statements(&[
            patch("claim", "j.attempt = 0 AND", "false AND"),
            patch("claim", "j.attempt + 1", "j.attempt"),
            patch("claim_one", "j.attempt = 0 AND", "false AND"),
            patch("claim_one", "t.attempt + 1", "t.attempt"),
        ]),
        scenario: Scenario::Work,
        rules: &[Rule::Attempts],
    },
    Mutant {
        name: "lease-id-is-reused",
        mutation: Mutation::Statements(&[
            patch(
                "claim",
                "SELECT $7::uuid AS lease_id",
                "SELECT coalesce($8::uuid, $7::uuid) AS lease_id",
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
        mutation: Mutation::Statements(&[
            patch("claim", "(u.crashes = 0 OR CASE", "(true OR CASE"),
            patch("claim", "j.crashes > 0 OR j.kind = ANY", "j.kind = ANY"),
        ]),
        scenario: Scenario::Poison,
        rules: &[Rule::SuspectsAlone],
    },
];
