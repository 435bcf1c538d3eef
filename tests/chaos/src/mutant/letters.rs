//! Mutants of cancel, redrive and prune.

use super::{FunctionPatch, Mutant, Mutation, patch};
use crate::checker::Rule;
use crate::scenario::Scenario;

pub(super) const MUTANTS: &[Mutant] = &[
    Mutant {
        name: "cancel-loses-the-job",
        mutation: Mutation::Statements(&[patch(
            "cancel",
            "HAVING count(*) > 0",
            "HAVING count(*) > 1",
        )]),
        scenario: Scenario::Work,
        rules: &[Rule::Kept],
    },
    Mutant {
        name: "redrive-keeps-the-letter-open",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.send_back",
            changes: &[(
                "SET state = 'redriving', changed_at",
                "SET state = 'open', changed_at",
            )],
        }]),
        scenario: Scenario::Work,
        rules: &[Rule::RedriveOnce],
    },
    Mutant {
        name: "redrive-without-locks",
        mutation: Mutation::Functions(&[
            FunctionPatch {
                function: "redrive.send_back",
                changes: &[("FOR UPDATE SKIP LOCKED", "")],
            },
            FunctionPatch {
                function: "redrive.lock_letters",
                changes: &[(" FOR UPDATE SKIP LOCKED", "")],
            },
        ]),
        scenario: Scenario::Operators,
        rules: &[Rule::RedriveOnce],
    },
    Mutant {
        name: "redrive-keeps-the-generation",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.send_back",
            changes: &[("l.generation + 1,", "l.generation,")],
        }]),
        scenario: Scenario::Work,
        rules: &[Rule::Lineage],
    },
    Mutant {
        name: "run-ignores-the-validation",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.create_run",
            changes: &[("redrive.filter_condition(among, 'letters', '$5')", "'true'")],
        }]),
        scenario: Scenario::Validated,
        rules: &[Rule::Validated],
    },
    Mutant {
        name: "prune-deletes-open-letters",
        mutation: Mutation::Functions(&[FunctionPatch {
            function: "redrive.prune_letters",
            changes: &[(
                "(VALUES ('recovered'), ('discarded'))",
                "(VALUES ('recovered'), ('discarded'), ('open'))",
            )],
        }]),
        scenario: Scenario::Prune,
        rules: &[Rule::LawfulPrune],
    },
];
