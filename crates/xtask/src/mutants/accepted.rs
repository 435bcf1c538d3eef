//! The mutants that no test can notice, each with its reason.

use std::collections::BTreeMap;
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

/// The accepted mutants: the reason of each identity.
#[derive(Clone, Debug, Default)]
pub(super) struct Accepted(BTreeMap<String, String>);

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
        for entry in entries {
            let (id, name) = (&entry.id, &entry.name);
            let same = |mutant: &&SqlMutant<'_>| mutant.id == *id;
            let mutant = mutants.iter().find(same).with_context(|| {
                format!("{FILE}: the mutant {id} of `{name}` does not exist any more; remove it")
            })?;
            ensure!(
                mutant.source.name == *name && mutant.change == entry.change,
                "{FILE}: the mutant {id} is `{}` with {}",
                mutant.source.name,
                mutant.change
            );
            ensure!(
                !entry.reason.trim().is_empty(),
                "{FILE}: {id} has no reason"
            );
            let twice = accepted.0.insert(entry.id.clone(), entry.reason);
            ensure!(twice.is_none(), "{FILE}: {id} is listed twice");
        }
        Ok(accepted)
    }

    /// Returns the reason of a mutant.
    pub(super) fn reason(&self, mutant: &SqlMutant<'_>) -> Option<&str> {
        self.0.get(&mutant.id).map(|reason| &**reason)
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}
