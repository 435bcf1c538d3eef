//! The name, version, handlers, validators and sinks of the program.

use std::collections::BTreeMap;
use std::sync::Arc;

use redrive::Handlers;
use redrive::dlq::{Sink, Validators};

/// Everything that a program registered.
#[derive(Default)]
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
            ..Registry::default()
        }
    }

    pub(crate) fn attempt_version(&self) -> String {
        match &self.version {
            Some(version) => version.clone(),
            None => concat!("redrive-cli ", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}
