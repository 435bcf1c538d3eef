//! Reads `#[payload(kind = "charge", …)]`. Pure.

use proc_macro2::Span;
use syn::spanned::Spanned as _;
use syn::{Attribute, Error, Expr, Result};

/// What the attributes may set.
const KEYS: [&str; 11] = [
    "kind", "queue", "attempts", "priority", "deadline", "backoff", "unique", "group", "version",
    "upgrade", "crate",
];

/// The values of the attributes, each at most once.
#[derive(Default)]
pub(crate) struct Attributes(pub(crate) Vec<(&'static str, Expr)>);

impl Attributes {
    /// Reads those of a type.
    pub(crate) fn of(attributes: &[Attribute]) -> Result<Attributes> {
        let mut found = Attributes::default();
        let own = |attribute: &&Attribute| attribute.path().is_ident("payload");
        for attribute in attributes.iter().filter(own) {
            attribute.parse_nested_meta(|meta| {
                let Some(key) = KEYS.into_iter().find(|key| meta.path.is_ident(key)) else {
                    return Err(meta.error(format!("it must be one of {}", KEYS.join(", "))));
                };
                if found.get(key).is_some() {
                    return Err(meta.error(format!("`{key}` is set twice")));
                }
                let mut value: Expr = meta.value()?.parse()?;
                // The argument of a macro.
                if let Expr::Group(group) = value {
                    value = *group.expr;
                }
                found.0.push((key, value));
                Ok(())
            })?;
        }
        if found.get("kind").is_none() {
            let why = "a payload needs a name in the database: #[payload(kind = \"…\")]";
            return Err(Error::new(Span::call_site(), why));
        }
        if let (Some(upgrade), None) = (found.get("upgrade"), found.get("version")) {
            let why = "`upgrade` needs a `version` of at least 2";
            return Err(Error::new(upgrade.span(), why));
        }
        Ok(found)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Expr> {
        let found = self.0.iter().find(|(name, _)| *name == key);
        found.map(|(_, value)| value)
    }
}
