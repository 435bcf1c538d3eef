//! Splits verdicts into statements.

use crate::worker::ledger::DueLease;

/// The maximum number of verdicts per statement, except for a single larger lease.
const VERDICTS: usize = 1000;

/// Splits verdicts into statements, never within a lease.
pub(super) fn in_statements(leases: Vec<DueLease>) -> Vec<Vec<DueLease>> {
    let mut statements: Vec<Vec<DueLease>> = Vec::new();
    let mut verdicts = 0;
    for lease in leases {
        if statements.is_empty() || verdicts >= VERDICTS {
            statements.push(Vec::new());
            verdicts = 0;
        }
        verdicts += lease.settlements.len();
        if let Some(statement) = statements.last_mut() {
            statement.push(lease);
        }
    }
    statements
}
