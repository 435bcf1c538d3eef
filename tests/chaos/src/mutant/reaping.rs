//! Mutants of reaping and renewing.

use super::{Mutant, Mutation, patch};
use crate::checker::Rule;
use crate::scenario::Scenario;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "crashes-have-no-limit",
        mutation: Mutation::Statements(&[patch(
            "reap",
            "j.crashes + 1 >= $3 OR ",
            "$3::integer < 0 OR ",
        )]),
        scenario: Scenario::Poison,
        rules: &[Rule::Attempts],
    },
    Mutant {
        name: "reap-counts-no-crash",
        mutation: Mutation::Statements(&[patch(
            "reap",
            "j.crashes + 1, j.refunds",
            "j.crashes::integer, j.refunds",
        )]),
        scenario: Scenario::Poison,
        rules: &[Rule::Fenced],
    },
    Mutant {
        name: "reap-ignores-expiry",
        mutation: Mutation::Statements(&[
            patch(
                "chores",
                "interval '1 millisecond')\n              < statement_timestamp()",
                "interval '1 millisecond')\n              < statement_timestamp() + interval '1 hour'",
            ),
            patch(
                "reap",
                "interval '1 millisecond')\n            < statement_timestamp()",
                "interval '1 millisecond')\n            < statement_timestamp() + interval '1 hour'",
            ),
        ]),
        scenario: Scenario::LongRun,
        rules: &[Rule::LawfulReap],
    },
    Mutant {
        name: "renew-sets-a-past-expiry",
        mutation: Mutation::Statements(&[patch(
            "renew",
            "clock_timestamp() + $8::bigint",
            "clock_timestamp() - interval '1 minute' + $8::bigint",
        )]),
        scenario: Scenario::LongRun,
        rules: &[Rule::LawfulReap],
    },
    Mutant {
        name: "no-grace-after-a-restart",
        mutation: Mutation::Statements(&[patch(
            "reap",
            "pg_postmaster_start_time() + $1::integer * interval '1 millisecond'",
            "pg_postmaster_start_time() + 0 * interval '1 millisecond'",
        )]),
        scenario: Scenario::Restart,
        rules: &[Rule::LawfulReap],
    },
    Mutant {
        name: "reap-returns-done-jobs",
        mutation: Mutation::Statements(&[patch(
            "reap",
            "WHERE j.id <> ALL (e.done)",
            "WHERE j.id > 0",
        )]),
        scenario: Scenario::Kill,
        rules: &[Rule::NotInvented, Rule::OnePlace],
    },
    Mutant {
        name: "reap-drops-all-but-one",
        mutation: Mutation::Statements(&[patch(
            "reap",
            "WHERE j.id <> ALL (e.done)",
            "WHERE j.id <> ALL (e.done) AND j.id = (e.lease).ids[1]",
        )]),
        scenario: Scenario::Kill,
        rules: &[Rule::Fenced],
    },
];
