//! Mutants of bulk changes of waiting jobs.

use super::{FunctionPatch, Mutant, Mutation};
use crate::checker::Rule;
use crate::scenario::Scenario;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "bulk-change-ignores-the-filter",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.waiting_query",
            changes: &[(
                "' AND ' || redrive.filter_jobs(filter - 'state') || ' ORDER BY j.id LIMIT $4'",
                "' ORDER BY j.id LIMIT $4'",
            )],
        }]),
        scenario: Scenario::Live,
        rules: &[Rule::Unpredicted],
    },
    Mutant {
        name: "run-now-loses-the-priority",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.change_jobs",
            changes: &[(
                "THEN change_jobs.priority END,",
                "THEN change_jobs.priority WHEN 'run_now' THEN 0 END,",
            )],
        }]),
        scenario: Scenario::Live,
        rules: &[Rule::Content],
    },
    Mutant {
        name: "run-now-keeps-the-time",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.change_jobs",
            changes: &[(
                "CASE action WHEN 'run_now' THEN clock_timestamp() END",
                "NULL",
            )],
        }]),
        scenario: Scenario::Live,
        rules: &[Rule::Unpredicted],
    },
    Mutant {
        name: "bulk-change-moves-the-time",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.change_jobs",
            changes: &[(
                "THEN clock_timestamp() END",
                "THEN clock_timestamp() ELSE j.ready_at + interval '1 hour' END",
            )],
        }]),
        scenario: Scenario::Live,
        rules: &[Rule::Content],
    },
];
