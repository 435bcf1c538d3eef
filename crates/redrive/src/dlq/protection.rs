//! Protections: who may redrive letters of a queue, and which runs a second operator must approve.

use postgres::Row;

use crate::dlq::prelude::*;

/// The role from which an approval must come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Approver {
    /// Any role: the name of the [`Operator`] must differ, which each program chooses itself.
    AnyRole,
    /// Another database role than the one that created the run, which the server verifies.
    OtherRole,
}

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
        /// The role from which an approval must come.
        pub approver: Approver = approver,
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
            approver: Approver::AnyRole,
            roles: Vec::new(),
        }
    }

    /// Requires the approval of a second operator for runs with more letters than this.
    pub fn approve_above(mut self, letters: u64) -> Protection {
        self.approve_above = Some(letters);
        self
    }

    /// Sets the role from which an approval must come. Defaults to [`Approver::AnyRole`].
    pub fn approver(mut self, approver: Approver) -> Protection {
        self.approver = approver;
        self
    }

    /// Lets only this database role and its members redrive. Repeat it for several roles.
    pub fn role(mut self, role: impl Into<String>) -> Protection {
        self.roles.push(role.into());
        self
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
        let roles = (!protection.roles.is_empty()).then_some(&*protection.roles);
        self.db.ask().one(
            &format!("protect queue `{}`", protection.queue),
            &sql::SET_PROTECTION,
            &[
                &protection.queue,
                &protection.approve_above,
                &roles,
                &(protection.approver == Approver::OtherRole),
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

fn approver(row: &Row) -> Approver {
    match row.get("other_role") {
        true => Approver::OtherRole,
        false => Approver::AnyRole,
    }
}
