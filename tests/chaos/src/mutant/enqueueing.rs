//! Mutants of unique keys, the ring and the clients themselves.

use super::{FunctionPatch, Mutant, Mutation, patch};
use crate::checker::Rule;
use crate::role::ClientFlaw;
use crate::scenario::Scenario;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "retry-frees-the-key",
        mutation: Mutation::Statements(&[patch(
            "settle",
            "s.unique_key IS NOT NULL AND s.verdict = 'done'",
            "s.unique_key IS NOT NULL AND s.verdict IN ('done', 'retry')",
        )]),
        scenario: Scenario::Unique,
        rules: &[Rule::OneOfAKey],
    },
    Mutant {
        name: "enqueue-ignores-the-key",
        mutation: Mutation::Statements(&[
            patch(
                "enqueue_unique",
                "h.job_id IS NULL OR h.job_id = i.id AS is_new",
                "true AS is_new",
            ),
            patch(
                "enqueue_unique",
                "coalesce(h.job_id, i.id) AS id",
                "i.id AS id",
            ),
        ]),
        scenario: Scenario::Unique,
        rules: &[Rule::OneOfAKey],
    },
    Mutant {
        name: "start-keeps-the-key",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.free_started_keys",
            changes: &[("IF started = '{}' THEN", "IF true THEN")],
        }]),
        scenario: Scenario::UniqueModes,
        rules: &[Rule::OneOfAKey],
    },
    Mutant {
        name: "replace-keeps-the-payload",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.replace_waiting",
            changes: &[(
                "SET payload = CASE replace_waiting.change WHEN 'time' THEN d.payload ELSE replace_waiting.payload END",
                "SET payload = d.payload",
            )],
        }]),
        scenario: Scenario::UniqueModes,
        rules: &[Rule::UniqueModes],
    },
    Mutant {
        name: "window-ends-at-once",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.open_window",
            changes: &[(
                "clock_timestamp() + open_window.window_ms * interval '1 millisecond')",
                "clock_timestamp())",
            )],
        }]),
        scenario: Scenario::UniqueModes,
        rules: &[Rule::UniqueModes],
    },
    Mutant {
        name: "truncate-ignores-rows",
        mutation: Mutation::Functions(&[
            FunctionPatch {
                function: "redrive.turn_ring",
                changes: &[("NOT redrive.ends_with_jobs(s.segment)", "true")],
            },
            FunctionPatch {
                function: "redrive.clear_segment",
                changes: &[("NOT occupied", "true")],
            },
            FunctionPatch {
                function: "redrive.truncate_segment",
                changes: &[("IF NOT occupied THEN", "IF true THEN")],
            },
        ]),
        scenario: Scenario::Ring,
        rules: &[Rule::Kept],
    },
    Mutant {
        name: "truncate-waits-for-the-enqueue",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.truncate_segment",
            changes: &[
                ("IF redrive.is_held(heap) THEN", "IF false THEN"),
                ("IF NOT occupied THEN", "IF true THEN"),
                ("lock_timeout TO '50ms'", "lock_timeout TO '60s'"),
            ],
        }]),
        scenario: Scenario::Ring,
        rules: &[Rule::Kept],
    },
    Mutant {
        name: "client-acks-before-commit",
        mutation: Mutation::Client(ClientFlaw::AcksEarly),
        scenario: Scenario::Ring,
        rules: &[Rule::Honest],
    },
    Mutant {
        name: "client-resends-with-new-ids",
        mutation: Mutation::Client(ClientFlaw::Resends),
        scenario: Scenario::LostAnswers,
        rules: &[Rule::NotInvented],
    },
];
