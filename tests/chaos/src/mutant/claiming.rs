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
            patch("claim", "j.attempt + 1 AS attempt", "j.attempt AS attempt"),
            patch(
                "claim_one",
                "j.attempt + 1 AS attempt",
                "j.attempt AS attempt",
            ),
        ]),
        scenario: Scenario::Work,
        rules: &[Rule::Attempts],
    },
    Mutant {
        name: "lease-id-is-reused",
        mutation: Mutation::Statements(&[
            patch(
                "claim",
                "coalesce(t.own_lease, $7)",
                "coalesce(t.own_lease, $8, $7)",
            ),
            patch(
                "claim",
                "SELECT t.own_lease, t.id",
                "SELECT coalesce(t.own_lease, $8) AS own_lease, t.id",
            ),
            patch(
                "claim_one",
                "SELECT $5, $6, $1",
                "SELECT coalesce($6, $5), $6, $1",
            ),
            patch(
                "claim_one",
                "SELECT NULL::uuid AS own_lease",
                "SELECT $6::uuid AS own_lease",
            ),
        ]),
        scenario: Scenario::Work,
        rules: &[Rule::Fenced],
    },
    Mutant {
        name: "suspects-share-a-lease",
        mutation: Mutation::Statements(&[
            patch("claim", "(p.crashes = 0 OR CASE", "(true OR CASE"),
            patch("claim", "(max(p.crashes) < $13::integer OR", "(true OR"),
            patch("claim", "j.crashes > 0 OR j.kind = ANY", "j.kind = ANY"),
        ]),
        scenario: Scenario::Poison,
        rules: &[Rule::SuspectsAlone],
    },
];
