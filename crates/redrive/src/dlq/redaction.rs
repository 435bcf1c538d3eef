//! Redactions: secrets removed from letters when a job dies or a failure is captured.

mod existing;

use crate::dlq::prelude::*;

row! {
    /// Values and text to remove from letters when a job dies.
    ///
    /// Removed parts become `[redacted]`. A JSON pointer removes a value of the payload, and
    /// captured bytes that contain it; the part `*` stands for every element of an array and every
    /// member of an object. A pattern, a PostgreSQL regular expression without back references, removes text
    /// from the error message, detail and history, from captured headers, and from captured bytes
    /// that are not JSON. Captured bytes of over 16 MiB are not parsed: a rule with a path drops all of them,
    /// and so does a pattern that matches.
    ///
    /// A redaction applies to later deaths, and by [`Redactions::apply`] to existing letters. A letter whose payload or bytes were redacted stays in
    /// the dead letter queue until an edit replaces the values or a redrive is
    /// [forced](crate::dlq::RedriveOptions::force).
    ///
    /// The [guide](crate::_guide::dead_letters) has an example.
    #[derive(Default, PartialEq, Eq)]
    #[must_use]
    pub struct Redaction {
        /// The queue; `None`: every queue.
        pub queue: Option<String>,
        /// The kind; `None`: every kind.
        pub kind: Option<String>,
        /// The JSON pointers of payload values.
        pub paths: Vec<String>,
        /// The regular expressions of texts.
        pub patterns: Vec<String>,
    }
}

impl Redaction {
    /// Returns an empty redaction for every queue and kind. Add at least one path or
    /// pattern.
    pub fn new() -> Redaction {
        Redaction::default()
    }

    setters! {
        /// Limits the redaction to this queue.
        pub fn queue(self, queue: impl Into<String>) => self.queue = Some(queue.into());

        /// Limits the redaction to this kind.
        pub fn kind(self, kind: impl Into<String>) => self.kind = Some(kind.into());

        /// Removes the payload value at this JSON pointer, such as `/card/number`, `/cards/0` or
        /// `/cards/*/number`.
        pub fn path(self, pointer: impl Into<String>) => self.paths.push(pointer.into());

        /// Removes text that matches this regular expression.
        pub fn pattern(self, pattern: impl Into<String>) => self.patterns.push(pattern.into());
    }
}

impl Redactions<'_> {
    /// Adds a redaction for later deaths and returns its id.
    ///
    /// # Errors
    /// *Invalid* if a name, pointer or pattern is malformed, or if a pattern has a back reference;
    /// otherwise if the database fails.
    pub fn add(&self, redaction: &Redaction, operator: &Operator) -> Result<RedactionId> {
        self.db.ask().one(
            "add a redaction",
            &sql::ADD_REDACTION,
            &[
                &redaction.queue,
                &redaction.kind,
                &redaction.paths,
                &redaction.patterns,
                operator,
            ],
        )
    }

    /// Removes a redaction. Text it removed stays removed. Returns whether the redaction
    /// existed.
    ///
    /// # Errors
    /// If the database fails.
    pub fn remove(&self, id: RedactionId, operator: &Operator) -> Result<bool> {
        let doing = format!("remove redaction {id}");
        let ask = self.db.ask();
        ask.one(&doing, &sql::REMOVE_REDACTION, &[&id, operator])
    }

    /// Returns the redactions in the order in which they apply.
    ///
    /// # Errors
    /// If the database fails.
    pub fn list(&self) -> Result<Vec<(RedactionId, Redaction)>> {
        let ask = self.db.ask();
        let rows = ask.rows("list the redactions", &sql::REDACTIONS, &[])?;
        rows.iter()
            .map(|row| Ok((column(row, "id")?, Redaction::from_row(row)?)))
            .collect()
    }
}
