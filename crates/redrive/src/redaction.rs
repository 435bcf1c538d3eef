//! Redactions: what must not be kept, taken out at the moment of death, by whichever door it comes.

use std::fmt;

use postgres::Row;

use crate::act::Act;
use crate::database::Database;
use crate::error::{Error, Result};
use crate::name;
use crate::sql;

/// What is taken out of letters when they die: values of the payload, and parts of texts.
///
/// Both become `[redacted]`. A value of the payload is named by a JSON pointer; captured bytes that
/// hold it are dropped. A pattern is a regular expression of PostgreSQL, for the message, the
/// detail and the history of errors, for the headers of a captured failure, and for its bytes when
/// they are not JSON. It works on every death from then on and on no letter that is there. A
/// letter that is redriven goes back without what was taken out.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let db = redrive::connect(&std::env::var("DATABASE_URL")?)?;
/// # db.migrate()?;
/// use redrive::{Act, Redaction};
///
/// let cards = Redaction::new().queue("orders").path("/card/number").pattern(r"\d{13,19}");
/// let id = db.add_redaction(&cards, &Act::new().person("maria@ops-1").why("card data"))?;
/// assert!(db.redactions()?.iter().any(|(known, rule)| *known == id && *rule == cards));
/// db.remove_redaction(id, &Act::new())?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redaction {
    queue: Option<String>,
    kind: Option<String>,
    paths: Vec<String>,
    patterns: Vec<String>,
}

/// The id of a redaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RedactionId(i64);

impl RedactionId {
    /// The redaction with this number.
    pub fn new(id: i64) -> RedactionId {
        RedactionId(id)
    }

    /// Its number.
    pub fn get(self) -> i64 {
        self.0
    }
}

impl fmt::Display for RedactionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Redaction {
    /// A redaction of nothing yet, in every queue and kind.
    pub fn new() -> Redaction {
        Redaction::default()
    }

    /// Only in this queue.
    #[must_use]
    pub fn queue(mut self, queue: impl Into<String>) -> Redaction {
        self.queue = Some(queue.into());
        self
    }

    /// Only for jobs of this kind.
    #[must_use]
    pub fn kind(mut self, kind: impl Into<String>) -> Redaction {
        self.kind = Some(kind.into());
        self
    }

    /// The value at this JSON pointer into the payload, such as `/card/number` or `/cards/0`.
    #[must_use]
    pub fn path(mut self, pointer: impl Into<String>) -> Redaction {
        self.paths.push(pointer.into());
        self
    }

    /// What matches this regular expression in the texts.
    #[must_use]
    pub fn pattern(mut self, pattern: impl Into<String>) -> Redaction {
        self.patterns.push(pattern.into());
        self
    }

    /// The queue it is for; `None`: every one.
    pub fn for_queue(&self) -> Option<&str> {
        self.queue.as_deref()
    }

    /// The kind it is for; `None`: every one.
    pub fn for_kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }

    /// The pointers.
    pub fn paths(&self) -> &[String] {
        &self.paths
    }

    /// The patterns.
    pub fn patterns(&self) -> &[String] {
        &self.patterns
    }

    /// # Errors
    /// *Invalid* when it redacts nothing, or a pointer is none. The server checks the patterns.
    fn check(&self) -> Result<()> {
        if let Some(queue) = &self.queue {
            name::check("queue", queue)?;
        }
        if let Some(kind) = &self.kind {
            name::check("kind", kind)?;
        }
        if self.paths.is_empty() && self.patterns.is_empty() {
            return Err(Error::invalid("a redaction needs a path or a pattern"));
        }
        if let Some(bad) = self.paths.iter().find(|path| !is_pointer(path)) {
            return Err(Error::invalid(format!(
                "`{}` is not a JSON pointer; one looks like /card/number",
                bad.escape_debug()
            )));
        }
        if let Some(bad) = self
            .patterns
            .iter()
            .find(|pattern| pattern.is_empty() || pattern.contains('\0'))
        {
            return Err(Error::invalid(format!(
                "`{}` is not a pattern: it is empty or has a NUL character",
                bad.escape_debug()
            )));
        }
        Ok(())
    }
}

/// Whether a text is a JSON pointer (RFC 6901) to something inside of a document.
fn is_pointer(text: &str) -> bool {
    text.starts_with('/')
        && !text.contains('\0')
        && text
            .split('~')
            .skip(1)
            .all(|rest| rest.starts_with(['0', '1']))
}

impl Database {
    /// Adds a redaction, for every death from now on.
    ///
    /// # Errors
    /// *Invalid* when a pointer or a pattern is not good; when the database refuses or does not
    /// answer.
    pub fn add_redaction(&self, redaction: &Redaction, act: &Act) -> Result<RedactionId> {
        redaction.check()?;
        let (redaction, act) = (redaction.clone(), act.clone());
        self.call("add a redaction", move |session| {
            let row = session.query_one(
                "add a redaction",
                &sql::ADD_REDACTION,
                &[
                    &redaction.queue,
                    &redaction.kind,
                    &redaction.paths,
                    &redaction.patterns,
                    &act.by(),
                    &act.reason(),
                ],
            )?;
            Ok(RedactionId(row.get("id")))
        })
    }

    /// Removes a redaction. What it redacted stays so. `false`: there is none with this id.
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn remove_redaction(&self, id: RedactionId, act: &Act) -> Result<bool> {
        let act = act.clone();
        self.call("remove a redaction", move |session| {
            let row = session.query_one(
                &format!("remove redaction {id}"),
                &sql::REMOVE_REDACTION,
                &[&id.get(), &act.by(), &act.reason()],
            )?;
            Ok(row.get("found"))
        })
    }

    /// Lists the redactions, in the order in which they are applied.
    ///
    /// # Errors
    /// When the database refuses or does not answer.
    pub fn redactions(&self) -> Result<Vec<(RedactionId, Redaction)>> {
        self.call("list the redactions", |session| {
            let rows = session.query("list the redactions", &sql::REDACTIONS, &[])?;
            let redaction = |row: &Row| {
                let redaction = Redaction {
                    queue: row.get("queue"),
                    kind: row.get("kind"),
                    paths: row.get("paths"),
                    patterns: row.get("patterns"),
                };
                (RedactionId(row.get("id")), redaction)
            };
            Ok(rows.iter().map(redaction).collect())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pointers_and_patterns_are_checked() {
        for good in ["/card", "/", "/a/0/b", "/a~1b", "/m~0n"] {
            assert!(Redaction::new().path(good).check().is_ok(), "{good}");
        }
        for bad in ["", "card", "$.card", "/a~b", "/a~", "/a\0"] {
            let error = Redaction::new().path(bad).check().expect_err(bad);
            assert!(error.to_string().contains("JSON pointer"), "{error}");
        }
        assert!(Redaction::new().check().is_err(), "of nothing");
        assert!(Redaction::new().pattern("").check().is_err());
        assert!(Redaction::new().pattern("x").queue(" ").check().is_err());
    }
}
