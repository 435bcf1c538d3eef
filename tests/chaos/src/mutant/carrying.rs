//! Mutants that lose or alter what a job carries.

use super::{FunctionPatch, Mutant, Mutation, patch};
use crate::checker::Rule;
use crate::scenario::Scenario;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "release-loses-the-history",
        mutation: Mutation::Statements(&[patch(
            "release",
            "t.refunds, j.history,",
            "t.refunds, NULL::jsonb,",
        )]),
        scenario: Scenario::Carry,
        rules: &[Rule::History],
    },
    Mutant {
        name: "return-loses-the-headers",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.requeue",
            changes: &[(
                "j.headers, j.group_key\n        FROM unnest(ready)",
                "NULL, j.group_key\n        FROM unnest(ready)",
            )],
        }]),
        scenario: Scenario::Carry,
        rules: &[Rule::Content],
    },
    Mutant {
        name: "return-resets-the-first-enqueue",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.requeue",
            changes: &[(
                "clock_timestamp()), j.enqueued_at",
                "clock_timestamp()), clock_timestamp()",
            )],
        }]),
        scenario: Scenario::Carry,
        rules: &[Rule::Content],
    },
    Mutant {
        name: "reap-loses-the-history",
        mutation: Mutation::Statements(&[patch(
            "reap",
            "redrive.add_attempt(j.history,",
            "redrive.add_attempt(NULL::jsonb,",
        )]),
        scenario: Scenario::Carry,
        rules: &[Rule::History],
    },
    Mutant {
        name: "retry-resets-refunds",
        mutation: Mutation::Statements(&[patch(
            "settle",
            "(j.job).refunds + (v.verdict",
            "0 + (v.verdict",
        )]),
        scenario: Scenario::Carry,
        rules: &[Rule::Attempts],
    },
    Mutant {
        name: "death-loses-the-priority",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.bury",
            changes: &[("c.payload, c.priority,", "c.payload, 0,")],
        }]),
        scenario: Scenario::Carry,
        rules: &[Rule::Content],
    },
    Mutant {
        name: "retry-alters-the-payload",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.requeue",
            changes: &[(
                "j.refunds,\n               j.queue, j.kind, j.payload,",
                "j.refunds,\n               j.queue, j.kind, (j.payload::jsonb || '{\"ms\": 1}')::json,",
            )],
        }]),
        scenario: Scenario::Carry,
        rules: &[Rule::Content],
    },
    Mutant {
        name: "retry-waits-twice-as-long",
        mutation: Mutation::Statements(&[patch(
            "settle",
            "v.delay_ms * interval '1 millisecond'",
            "v.delay_ms * interval '2 milliseconds'",
        )]),
        scenario: Scenario::Work,
        rules: &[Rule::Delay],
    },
    Mutant {
        name: "checkpoint-is-not-stored",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.with_headers",
            changes: &[(" || with_headers.headers[n]", "")],
        }]),
        scenario: Scenario::Work,
        rules: &[Rule::Checkpoint],
    },
    Mutant {
        name: "move-loses-the-priority",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.move_stragglers",
            changes: &[(
                "array_agg(job)",
                "array_agg(redrive.altered(job, priority => 0))",
            )],
        }]),
        scenario: Scenario::Carry,
        rules: &[Rule::Content],
    },
];
