//! Protections: who may redrive letters of a queue, and which runs a second operator must approve.

use crate::dlq::prelude::*;

row! {
    /// The conditions for redriving letters of a queue.
    #[derive(PartialEq, Eq)]
    #[must_use]
    pub struct Protection {
        /// The queue of the letters.
        pub queue: String,
        /// A run with more letters of the queue than this needs the approval of a second operator;
        /// `None`: no run does. A [policy](crate::dlq::Policy) redrives none of them while more match.
        pub approve_above: Option<u64>,
        /// Only these database roles and their members may redrive, and the policies that they set. Empty: every
        /// operator.
        pub roles: Vec<String>,
    }
}

impl Protection {
    /// A protection of a queue that requires nothing yet.
    pub fn new(queue: impl Into<String>) -> Protection {
        Protection {
            queue: queue.into(),
            approve_above: None,
            roles: Vec::new(),
        }
    }

    setters! {
        /// Requires the approval of a second operator for runs with more letters than this. Each program chooses the name of
        /// its [`Operator`] itself.
        pub fn approve_above(self, letters: u64) => self.approve_above = Some(letters);

        /// Lets only this database role and its members redrive. Repeat it for several roles.
        pub fn role(self, role: impl Into<String>) => self.roles.push(role.into());
    }
}

impl Dlq<'_> {
    /// Sets the protection of a queue and replaces an earlier one. Only the owner of the schema may;
    /// operators may not.
    ///
    /// The database enforces it in the statements that send letters back. Runs that exist already
    /// keep their state.
    ///
    /// # Errors
    /// *Invalid* if the queue has no valid name, it requires nothing or a role does not exist; otherwise if the database
    /// fails.
    pub fn protect(&self, protection: &Protection, operator: &Operator) -> Result<()> {
        self.db.ask().one(
            &format!("protect queue `{}`", protection.queue),
            &sql::SET_PROTECTION,
            &[
                &protection.queue,
                &protection.approve_above,
                &protection.roles,
                operator,
            ],
        )
    }

    /// Removes the protection of a queue. Returns whether it had one. Only the owner of the schema
    /// may.
    ///
    /// # Errors
    /// *Invalid* if the queue has no valid name; otherwise if the database fails.
    pub fn unprotect(&self, queue: &str, operator: &Operator) -> Result<bool> {
        name::check("queue", queue)?;
        let doing = format!("remove the protection of queue `{queue}`");
        let ask = self.db.ask();
        ask.one(&doing, &sql::REMOVE_PROTECTION, &[&queue, operator])
    }

    /// Returns the protections of all queues.
    ///
    /// # Errors
    /// If the database fails.
    pub fn protections(&self) -> Result<Vec<Protection>> {
        let ask = self.db.ask();
        ask.all("list protections", &sql::PROTECTIONS, &[])
    }
}
