//! An act: who does something to letters, and why, for the audit.

/// Who acts and why.
///
/// Every act of an operator is written into `redrive.audit`, in the transaction of the act, with
/// the database role of the session and what this says.
///
/// ```
/// use redrive::Act;
///
/// let act = Act::new().person("maria@ops-1").why("the gateway is fixed");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Act {
    person: Option<String>,
    why: Option<String>,
}

impl Act {
    /// An act of nobody in particular, for no reason given: a program's own.
    pub fn new() -> Act {
        Act::default()
    }

    /// Who acts: a person, as a rule `user@host`. At most 200 characters are kept.
    #[must_use]
    pub fn person(mut self, person: impl Into<String>) -> Act {
        self.person = Some(cleaned(person.into()));
        self
    }

    /// Why, in the person's words. At most 1,024 characters are kept.
    #[must_use]
    pub fn why(mut self, why: impl Into<String>) -> Act {
        self.why = Some(cleaned(why.into()));
        self
    }

    /// Who acts, as a parameter of a statement.
    pub(crate) fn by(&self) -> Option<&str> {
        self.person.as_deref()
    }

    /// Why, as a parameter of a statement; blank is nothing.
    pub(crate) fn reason(&self) -> Option<&str> {
        self.why.as_deref().filter(|why| !why.trim().is_empty())
    }
}

/// The database cannot hold NUL.
fn cleaned(text: String) -> String {
    if text.contains('\0') {
        text.replace('\0', "\u{fffd}")
    } else {
        text
    }
}
