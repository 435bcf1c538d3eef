//! Mutants of groups: turns, order, limits, and what letters hold.

use super::{FunctionPatch, Mutant, Mutation, patch};
use crate::checker::Rule;
use crate::scenario::Scenario;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "claim-ignores-turns",
        mutation: Mutation::Statements(&[patch(
            "claim_groups",
            "coalesce(max(p.mode) IN ('ordered', 'limit'), false) AS is_bounded",
            "false AS is_bounded",
        )]),
        scenario: Scenario::Groups,
        rules: &[Rule::GroupOrder, Rule::GroupLimit],
    },
    Mutant {
        name: "limit-is-one-more",
        mutation: Mutation::Statements(&[
            patch(
                "claim_groups",
                "FROM generate_series(1, p.job_limit)",
                "FROM generate_series(1, p.job_limit + 1)",
            ),
            patch(
                "claim_groups",
                "THEN p.job_limit - coalesce(",
                "THEN p.job_limit + 1 - coalesce(",
            ),
        ]),
        scenario: Scenario::Groups,
        rules: &[Rule::GroupLimit],
    },
    Mutant {
        name: "claim-takes-the-newest-of-a-group",
        mutation: Mutation::Statements(&[
            patch(
                "claim_groups",
                "PARTITION BY w.key ORDER BY w.id ROWS",
                "PARTITION BY w.key ORDER BY w.id DESC ROWS",
            ),
            patch(
                "claim_groups",
                "ORDER BY j.id\n                        LIMIT u.reach",
                "ORDER BY j.id DESC\n                        LIMIT u.reach",
            ),
        ]),
        scenario: Scenario::Groups,
        rules: &[Rule::GroupOrder],
    },
    Mutant {
        name: "claim-skips-a-locked-head",
        mutation: Mutation::Statements(&[
            patch(
                "claim_groups",
                "LIMIT 2 * $12::integer\n",
                "LIMIT 2 * $12::integer FOR UPDATE SKIP LOCKED\n",
            ),
            patch(
                "claim_groups",
                "LIMIT u.reach\n",
                "LIMIT u.reach FOR UPDATE SKIP LOCKED\n",
            ),
        ]),
        scenario: Scenario::LockedHead,
        rules: &[Rule::GroupOrder],
    },
    Mutant {
        name: "claim-walks-from-the-first-group",
        mutation: Mutation::Statements(&[
            patch(
                "claim_groups",
                "> coalesce($9::text, '')",
                "> coalesce(left($9::text, 0), '')",
            ),
            patch(
                "claim_groups",
                "ELSE least(r.room, n.share) END",
                "ELSE least(r.room, $4::bigint) END",
            ),
        ]),
        scenario: Scenario::FairGroups,
        rules: &[Rule::FairTurn],
    },
    Mutant {
        name: "backoff-frees-the-turn",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.free_slots",
            changes: &[("IS DISTINCT FROM 'ordered'", "IS NOT NULL")],
        }]),
        scenario: Scenario::Groups,
        rules: &[Rule::GroupOrder],
    },
    Mutant {
        name: "success-keeps-the-turn",
        mutation: Mutation::Statements(&[
            patch(
                "settle",
                "array_agg(s.id) FILTER (WHERE s.verdict = 'done')",
                "array_agg(s.id) FILTER (WHERE s.verdict = 'done' AND s.id % 2 = 0)",
            ),
            patch(
                "settle_done",
                "WHERE j.id <> ALL (l.done)",
                "WHERE j.id <> ALL (l.done) AND j.id % 2 = 0",
            ),
        ]),
        scenario: Scenario::Groups,
        rules: &[Rule::TurnOwned],
    },
    Mutant {
        name: "followers-lose-the-turn",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.pass_slots",
            changes: &[("h.place = g.place", "h.place = g.place AND false")],
        }]),
        scenario: Scenario::Followers,
        rules: &[Rule::TurnOwned, Rule::GroupOrder],
    },
    Mutant {
        name: "followers-return-without-a-turn",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.segment_of_returned",
            changes: &[("p.mode IN ('ordered', 'limit')", "p.mode = 'fair'")],
        }]),
        scenario: Scenario::Followers,
        rules: &[Rule::TurnOwned, Rule::GroupOrder],
    },
    Mutant {
        name: "dead-follower-holds-nothing",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.pass_slots",
            changes: &[("ELSIF policy.on_death = 'continue' THEN", "ELSE")],
        }]),
        scenario: Scenario::Followers,
        rules: &[Rule::GroupHold, Rule::TurnOwned],
    },
    Mutant {
        name: "transaction-keeps-the-turn",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.settle_own",
            changes: &[("ARRAY[settle_own.job]", "ARRAY[-settle_own.job]")],
        }]),
        scenario: Scenario::Groups,
        rules: &[Rule::TurnOwned],
    },
    Mutant {
        name: "death-holds-nothing",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.pass_turn",
            changes: &[("p.on_death IN ('hold', 'divert')", "p.on_death = 'divert'")],
        }]),
        scenario: Scenario::Groups,
        rules: &[Rule::GroupHold],
    },
    Mutant {
        name: "redrive-frees-the-turn",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.pass_turn",
            changes: &[(
                "UPDATE redrive.group_slots s SET held_at = NULL WHERE",
                "DELETE FROM redrive.group_slots s WHERE",
            )],
        }]),
        scenario: Scenario::Groups,
        rules: &[Rule::GroupOrder, Rule::TurnOwned],
    },
    Mutant {
        name: "redriven-letter-keeps-the-turn",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.pass_turn",
            changes: &[("SET held_at = NULL", "SET held_at = s.held_at")],
        }]),
        scenario: Scenario::Groups,
        rules: &[Rule::TurnOwned],
    },
    Mutant {
        name: "release-keeps-the-turn",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.release_group",
            changes: &[(
                "DELETE FROM redrive.group_slots s",
                "UPDATE redrive.group_slots s SET held_at = s.held_at",
            )],
        }]),
        scenario: Scenario::Groups,
        rules: &[Rule::GroupHold],
    },
    Mutant {
        name: "divert-charges-an-attempt",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.bury_waiting",
            changes: &[(
                "        jobs,\n",
                "ARRAY(SELECT redrive.tried(j, j.attempt + 1, j.crashes, j.refunds, j.history, j.outage_since)
                    FROM unnest(jobs) j),\n",
            )],
        }]),
        scenario: Scenario::Groups,
        rules: &[Rule::Diverted],
    },
    Mutant {
        name: "diverted-letter-holds-nothing",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.free_slots",
            changes: &[(
                "PERFORM redrive.hold_diverted(d.queue, d.group_key) FROM unnest(diverted) d;",
                "",
            )],
        }]),
        scenario: Scenario::Groups,
        rules: &[Rule::Diverted],
    },
];
