//! Mutants of batches: which jobs run together, and which verdict each has.

use super::{FunctionPatch, Mutant, Mutation, patch};
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
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.start_jobs",
            changes: &[("coalesce(j.attempt, 0) + 1", "1")],
        }]),
        scenario: Scenario::Batches,
        rules: &[Rule::Batch],
    },
    Mutant {
        name: "suspect-joins-a-batch",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.start_jobs",
            changes: &[("coalesce(j.crashes, 0::smallint)", "0::smallint")],
        }]),
        scenario: Scenario::Batches,
        rules: &[Rule::Batch],
    },
];
