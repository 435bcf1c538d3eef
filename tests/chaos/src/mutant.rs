//! Mutants: redrive with one bug, which its scenario must reveal.
//!
//! A proxy changes a statement on its way to the server, a function is replaced in the database,
//! or a client misbehaves. The library needs no hook for this.

mod batches;
mod carrying;
mod claiming;
mod enqueueing;
mod keeping;
mod letters;
mod live;
mod ordering;
mod pacing;
mod reaping;
mod settling;

use crate::checker::Rule;
use crate::proxy::Patch;
use crate::role::ClientFlaw;
use crate::scenario::Scenario;

/// A bug, and how it is noticed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mutant {
    pub(crate) name: &'static str,
    pub(crate) mutation: Mutation,
    pub(crate) scenario: Scenario,
    /// A violation of any of these kills it.
    pub(crate) rules: &'static [Rule],
}

/// The kind of change.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Mutation {
    /// Statements of the library.
    Statements(&'static [Patch]),
    /// Functions of the database.
    Functions(&'static [FunctionPatch]),
    /// The clients.
    Client(ClientFlaw),
}

/// Replacements in the definition of a function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FunctionPatch {
    pub(crate) function: &'static str,
    pub(crate) changes: &'static [(&'static str, &'static str)],
}

const fn patch(statement: &'static str, from: &'static str, to: &'static str) -> Patch {
    Patch {
        statement,
        from,
        to,
    }
}

/// Applied in every run, so that rare events are frequent: the ring turns at 16 kB instead of
/// 32 MB, and suspects wait for 2 % of the usual time.
pub(crate) const SPEED_UP: &[Patch] = &[
    patch(
        "turn_ring",
        "redrive.turn_ring($1, $2)",
        "redrive.turn_ring($1::bigint / 2048, $2)",
    ),
    patch(
        "reap",
        "(j.crashes + 1) * $4::integer",
        "(j.crashes + 1) * ($4::integer / 50)",
    ),
];

/// Returns all mutants.
pub(crate) fn all() -> impl Iterator<Item = &'static Mutant> {
    [
        claiming::MUTANTS,
        settling::MUTANTS,
        batches::MUTANTS,
        reaping::MUTANTS,
        enqueueing::MUTANTS,
        letters::MUTANTS,
        live::MUTANTS,
        ordering::MUTANTS,
        pacing::MUTANTS,
        carrying::MUTANTS,
        keeping::MUTANTS,
    ]
    .into_iter()
    .flatten()
}

/// Returns the patches whose text is in no statement, so that the mutant must be updated.
pub(crate) fn outdated() -> Vec<String> {
    let patches = all().flat_map(|mutant| match mutant.mutation {
        Mutation::Statements(patches) => patches,
        Mutation::Functions(_) | Mutation::Client(_) => &[],
    });
    let applies = |patch: &&Patch| {
        redrive::statements()
            .any(|(name, text)| name == patch.statement && text.contains(patch.from))
    };
    let outdated = SPEED_UP
        .iter()
        .chain(patches)
        .filter(|patch| !applies(patch));
    outdated
        .map(|patch| format!("{} does not contain `{}`", patch.statement, patch.from))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_patch_applies_to_its_statement() {
        assert_eq!(outdated(), Vec::<String>::new());
    }

    #[test]
    fn no_two_mutants_have_the_same_name() {
        let mut names: Vec<&str> = all().map(|mutant| mutant.name).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
