//! The mutants that no test can notice, each with its reason.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

use super::mutant::SqlMutant;

/// The file of the accepted mutants, below the root of the repository.
pub(super) const FILE: &str = "tests/mutants.json";

/// A mutant that may survive.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: String,
    /// The statement or the function.
    name: String,
    change: String,
    reason: String,
}

/// The identities of the accepted mutants.
#[derive(Clone, Debug, Default)]
pub(super) struct Accepted(BTreeSet<String>);

impl Accepted {
    /// Reads the file and checks that each of its mutants exists.
    pub(super) fn read(root: &Path, mutants: &[SqlMutant<'_>]) -> Result<Accepted> {
        let text =
            fs::read_to_string(root.join(FILE)).with_context(|| format!("cannot read {FILE}"))?;
        Accepted::parse(&text, mutants)
    }

    pub(super) fn parse(text: &str, mutants: &[SqlMutant<'_>]) -> Result<Accepted> {
        let entries: Vec<Entry> = serde_json::from_str(text)
            .with_context(|| format!("{FILE} is not a list of mutants"))?;
        let mut accepted = Accepted::default();
        for Entry {
            id,
            name,
            change,
            reason,
        } in entries
        {
            let is_it = |mutant: &SqlMutant<'_>| {
                mutant.id == id && mutant.source.name == name && mutant.change == change
            };
            ensure!(
                mutants.iter().any(is_it),
                "{FILE}: there is no mutant {id} of `{name}` with {change} any more; remove it"
            );
            ensure!(!reason.trim().is_empty(), "{FILE}: {id} has no reason");
            let is_new = accepted.0.insert(id.clone());
            ensure!(is_new, "{FILE}: {id} is listed twice");
        }
        Ok(accepted)
    }

    /// Whether a mutant may survive.
    pub(super) fn has(&self, mutant: &SqlMutant<'_>) -> bool {
        self.0.contains(&mutant.id)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
