//! The name, version, handlers, validators and sinks of the program.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use redrive::Handlers;
use redrive::dlq::{Sink, Validators};

use crate::name::OWN_NAME;

/// The words that follow the name of the program in a command.
pub(crate) const COMMANDS: [&str; 15] = [
    "migrate", "enqueue", "work", "stats", "job", "schedule", "dlq", "queue", "breaker", "prune",
    "redact", "erase", "audit", "repair", "help",
];

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

    /// Returns a help text whose commands have the name of the program: `redrive stats` becomes `shop stats`.
    pub(crate) fn named<'t>(&self, text: &'t str) -> Cow<'t, str> {
        if self.name == OWN_NAME {
            return Cow::Borrowed(text);
        }
        let mut parts = text.split("redrive ");
        let mut named = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let word = part.split([' ', '\n', '`', ';', ',', ':', ')']).next();
            // `dlq redrive` and `schedule redrive` are subcommands.
            let is_subcommand = ["dlq ", "schedule "].iter().any(|of| named.ends_with(of));
            let is_command = word.is_some_and(|word| COMMANDS.contains(&word)) && !is_subcommand;
            named.extend([if is_command { &*self.name } else { OWN_NAME }, " ", part]);
        }
        Cow::Owned(named)
    }

    pub(crate) fn attempt_version(&self) -> String {
        match &self.version {
            Some(version) => version.clone(),
            None => concat!("redrive-cli ", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_have_the_name_of_the_program() {
        let text = "a redrive run: redrive dlq redrive audit 4, `redrive stats`";
        assert_eq!(Registry::new("redrive".to_owned()).named(text), text);
        let shop = Registry::new("shop".to_owned());
        let named = "a redrive run: shop dlq redrive audit 4, `shop stats`";
        assert_eq!(shop.named(text), named);
    }
}
