//! Mutants that lose or alter what a job carries.

use super::{FunctionPatch, Mutant, Mutation, patch};
use crate::checker::Rule;
use crate::scenario::Scenario;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "release-loses-the-history",
        mutation: Mutation::Statements(&[patch(
            "release",
            "b.kind, b.payload, b.history,",
            "b.kind, b.payload, NULL::jsonb,",
        )]),
        scenario: Scenario::Carry,
        rules: &[Rule::History],
    },
    Mutant {
        name: "release-loses-the-headers",
        mutation: Mutation::Statements(&[patch(
            "release",
            "b.outage_since,\n           b.headers,",
            "b.outage_since,\n           NULL::jsonb,",
        )]),
        scenario: Scenario::Carry,
        rules: &[Rule::Content],
    },
    Mutant {
        name: "reap-resets-the-first-enqueue",
        mutation: Mutation::Statements(&[patch(
            "reap",
            "u.id, u.enqueued_at, u.attempt - 1",
            "u.id, clock_timestamp(), u.attempt - 1",
        )]),
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
            "s.priority, 0, s.refunds,",
            "s.priority, 0, 0,",
        )]),
        scenario: Scenario::Carry,
        rules: &[Rule::Attempts],
    },
    Mutant {
        name: "cancel-loses-the-priority",
        mutation: Mutation::Statements(&[patch(
            "cancel",
            "c.priority, c.attempt,",
            "0, c.attempt,",
        )]),
        scenario: Scenario::Carry,
        rules: &[Rule::Content],
    },
    Mutant {
        name: "retry-alters-the-payload",
        mutation: Mutation::Statements(&[patch(
            "settle",
            "s.queue, s.kind, s.payload, s.history,",
            "s.queue, s.kind, (s.payload::jsonb || '{\"ms\": 1}')::json, s.history,",
        )]),
        scenario: Scenario::Carry,
        rules: &[Rule::Content],
    },
    Mutant {
        name: "retry-waits-twice-as-long",
        mutation: Mutation::Statements(&[patch(
            "settle",
            "s.delay_ms * interval '1 millisecond'",
            "s.delay_ms * interval '2 milliseconds'",
        )]),
        scenario: Scenario::Work,
        rules: &[Rule::Delay],
    },
    Mutant {
        name: "checkpoint-is-not-stored",
        mutation: Mutation::Statements(&[patch(
            "checkpoint",
            "coalesce(j.headers, '{}') || g.headers",
            "j.headers",
        )]),
        scenario: Scenario::Work,
        rules: &[Rule::Checkpoint],
    },
    Mutant {
        name: "move-loses-the-priority",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.move_stragglers",
            changes: &[(
                " SELECT $1, id, ready_at, enqueued_at, attempt, max_attempts, generation, priority,",
                " SELECT $1, id, ready_at, enqueued_at, attempt, max_attempts, generation, 0,",
            )],
        }]),
        scenario: Scenario::Carry,
        rules: &[Rule::Content],
    },
];
