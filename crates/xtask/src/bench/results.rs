//! The file of results, updated scenario by scenario.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use serde::{Deserialize, Serialize};

use redrive_benches::Measurement;

use super::machine::Machine;

/// The results of one scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct ScenarioResult {
    pub(crate) name: String,
    /// A sentence that describes it.
    pub(crate) description: String,
    /// The time in UTC.
    pub(crate) at: String,
    /// The commit of redrive.
    pub(crate) commit: String,
    /// How long the scenario took.
    pub(crate) seconds: u64,
    pub(crate) measurements: Vec<Measurement>,
}

/// The content of the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Results {
    /// The machine of the last run.
    pub(crate) machine: Option<Machine>,
    pub(crate) scenarios: Vec<ScenarioResult>,
}

impl Results {
    /// Reads a file, or returns no results if there is none.
    pub(crate) fn read(file: &Path) -> Result<Results> {
        match fs::read_to_string(file) {
            Ok(text) => serde_json::from_str(&text).with_context(|| {
                format!(
                    "{} is not a file of results; remove it or name another",
                    file.display()
                )
            }),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Results::default()),
            Err(error) => Err(error).with_context(|| format!("cannot read {}", file.display())),
        }
    }

    /// Writes a file.
    pub(crate) fn write(&self, file: &Path) -> Result<()> {
        let text = serde_json::to_string_pretty(self)
            .map_err(|error| anyhow!("cannot write results: {error}"))?;
        fs::write(file, text + "\n").with_context(|| format!("cannot write {}", file.display()))
    }

    /// Replaces the results of one scenario.
    pub(crate) fn replace(&mut self, machine: &Machine, one: ScenarioResult) {
        self.machine = Some(machine.clone());
        match self
            .scenarios
            .iter_mut()
            .find(|known| known.name == one.name)
        {
            Some(known) => *known = one,
            None => self.scenarios.push(one),
        }
    }
}
