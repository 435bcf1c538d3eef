//! Mutants of pauses, rate limits and schedules.

use super::{FunctionPatch, Mutant, Mutation, patch};
use crate::checker::Rule;
use crate::scenario::Scenario;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "pause-is-not-read",
        mutation: Mutation::Statements(&[patch(
            "open_breakers",
            "FROM redrive.paused_queues p",
            "FROM redrive.paused_queues p WHERE false",
        )]),
        scenario: Scenario::Paused,
        rules: &[Rule::Paused],
    },
    Mutant {
        name: "start-takes-no-token",
        mutation: Mutation::Statements(&[patch(
            "charge_tokens",
            "- $3::bigint",
            "- 0 * $3::bigint",
        )]),
        scenario: Scenario::Rated,
        rules: &[Rule::RateLimit],
    },
    Mutant {
        name: "bucket-refills-too-fast",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.tokens_now",
            changes: &[(
                "bucket.tokens + redrive.token_refill(a_limit)",
                "bucket.tokens + 4 * redrive.token_refill(a_limit)",
            )],
        }]),
        scenario: Scenario::Rated,
        rules: &[Rule::RateLimit],
    },
    Mutant {
        name: "claim-takes-no-group-token",
        mutation: Mutation::Statements(&[
            patch(
                "claim_groups",
                "EXISTS (SELECT FROM rate) AND (p.tid IN",
                "false AND (p.tid IN",
            ),
            patch(
                "claim_groups",
                "CASE WHEN $13::boolean AND EXISTS",
                "CASE WHEN false AND EXISTS",
            ),
        ]),
        scenario: Scenario::GroupRated,
        rules: &[Rule::RateLimit],
    },
    Mutant {
        name: "group-bucket-refills-too-fast",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.take_group_tokens",
            changes: &[(
                "now + ceil(least(c.jobs, c.tokens) / refill * 1e6) * us",
                "now + ceil(least(c.jobs, c.tokens) / (4 * refill) * 1e6) * us",
            )],
        }]),
        scenario: Scenario::GroupRated,
        rules: &[Rule::RateLimit],
    },
    Mutant {
        name: "tick-loses-its-job",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.run_ticks",
            changes: &[("FROM redrive.ring r;", "FROM redrive.ring r WHERE false;")],
        }]),
        scenario: Scenario::Scheduled,
        rules: &[Rule::Schedule],
    },
    Mutant {
        name: "missed-ticks-are-not-recorded",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.tick_schedule",
            changes: &[("IF tick_schedule.missed > 0 THEN", "IF false THEN")],
        }]),
        scenario: Scenario::Scheduled,
        rules: &[Rule::Schedule],
    },
    Mutant {
        name: "pause-loses-the-next-tick",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.pause_schedule",
            changes: &[(
                "SET paused_at = CASE",
                "SET next_at = s.next_at + s.every, paused_at = CASE",
            )],
        }]),
        scenario: Scenario::Scheduled,
        rules: &[Rule::Schedule],
    },
    Mutant {
        name: "schedule-allows-overlaps",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.run_ticks",
            changes: &[(
                "CASE due.overlap WHEN 'skip' THEN",
                "CASE due.overlap WHEN 'never' THEN",
            )],
        }]),
        scenario: Scenario::Scheduled,
        rules: &[Rule::Schedule],
    },
];
