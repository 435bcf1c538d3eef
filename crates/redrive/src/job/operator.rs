//! Operators: the person behind a manual change and the reason, as the audit log records them.

use crate::job::error_report::without_nul;

/// The person or program behind a manual change, for the audit log.
///
/// Every manual change writes a row to `redrive.audit` in its own transaction: the database role
/// of the session, this name and this reason. Use [`Operator::default`] to record no name.
///
/// ```
/// use redrive::Operator;
///
/// let operator = Operator::new("maria@ops-1").reason("gateway fixed");
/// ```
#[derive(Clone, Debug, Default)]
pub struct Operator {
    name: Option<String>,
    reason: Option<String>,
}

impl Operator {
    /// Returns an operator with this name, usually `user@host`. Keeps at most 200 characters.
    pub fn new(name: impl Into<String>) -> Operator {
        Operator {
            name: Some(without_nul(name.into())),
            reason: None,
        }
    }

    /// Sets the reason for the change. Keeps at most 1,024 characters. Defaults to none.
    #[must_use]
    pub fn reason(mut self, reason: impl Into<String>) -> Operator {
        self.reason = Some(without_nul(reason.into()));
        self
    }

    /// The name, as a parameter of a statement.
    pub(crate) fn by(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The reason, as a parameter of a statement. A blank one counts as none.
    pub(crate) fn given_reason(&self) -> Option<&str> {
        self.reason
            .as_deref()
            .filter(|reason| !reason.trim().is_empty())
    }
}
