//! Mutants of batches: which jobs run together, and which verdict each has.

use super::{Mutant, Mutation, patch};
use crate::checker::Rule;
use crate::scenario::Scenario;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "neighbour-is-charged",
        mutation: Mutation::Statements(&[patch(
            "settle",
            "SELECT v.lease_id, v.id, v.verdict, v.delay_ms, v.cause,",
            "SELECT v.lease_id, v.id,
                    CASE WHEN v.verdict = 'done' AND 'retry' = ANY ($3::text[]) THEN 'retry' ELSE v.verdict END AS verdict,
                    coalesce(v.delay_ms, 0) AS delay_ms, v.cause,",
        )]),
        scenario: Scenario::Batches,
        rules: &[Rule::Batch],
    },
    Mutant {
        name: "retry-joins-a-batch",
        mutation: Mutation::Statements(&[
            patch(
                "claim",
                "l.priorities, l.attempts, l.max_attempts,\n       l.generations",
                "l.priorities, NULL::integer[] AS attempts, l.max_attempts,\n       l.generations",
            ),
            patch(
                "claim_one",
                "l.priorities, l.attempts, l.max_attempts,\n       l.generations",
                "l.priorities, NULL::integer[] AS attempts, l.max_attempts,\n       l.generations",
            ),
        ]),
        scenario: Scenario::Batches,
        rules: &[Rule::Batch],
    },
    Mutant {
        name: "suspect-joins-a-batch",
        mutation: Mutation::Statements(&[patch(
            "claim",
            "l.generations, l.crashes,\n",
            "l.generations, NULL::smallint[] AS crashes,\n",
        )]),
        scenario: Scenario::Batches,
        rules: &[Rule::Batch],
    },
];
