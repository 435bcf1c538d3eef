//! Rows that belong to no job or letter at the end of a run.

use postgres::Client;

/// Counts them. `redacts`: a rule was set before the first job died, so that no text has a secret.
pub(crate) fn read(client: &mut Client, redacts: bool) -> Vec<String> {
    let rows = client.query(include_str!("leftovers.sql"), &[&redacts]);
    rows.expect("count what is left")
        .iter()
        .map(|row| format!("{}: {}", row.get::<_, &str>(0), row.get::<_, i64>(1)))
        .collect()
}
