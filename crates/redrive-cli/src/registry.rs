//! The name, version, handlers, validators and sinks of the program.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use redrive::Handlers;
use redrive::dlq::{Sink, Validators};

/// Everything that a program registered.
pub(crate) struct Registry {
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    pub(crate) handlers: Handlers,
    pub(crate) validators: Validators,
    pub(crate) sinks: BTreeMap<String, Arc<dyn Sink + Send + Sync>>,
}

impl Registry {
    /// A registry with nothing but a name.
    pub(crate) fn new(name: String) -> Registry {
        Registry {
            name,
            version: None,
            handlers: Handlers::new(),
            validators: Validators::new(),
            sinks: BTreeMap::new(),
        }
    }

    /// The version that attempts are recorded with.
    pub(crate) fn attempt_version(&self) -> String {
        match &self.version {
            Some(version) => version.clone(),
            None => concat!("redrive-cli ", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

impl fmt::Debug for Registry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Registry")
            .field("name", &self.name)
            .field("handlers", &self.handlers)
            .field("validators", &self.validators)
            .field("sinks", &self.sinks.keys())
            .finish_non_exhaustive()
    }
}
