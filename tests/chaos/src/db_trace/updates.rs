//! The updates of jobs and leases, as triggers recorded them.

use std::sync::Arc;

use postgres::Client;

/// An update of a row of a job or a lease.
#[derive(Clone, Debug)]
pub(crate) struct RowUpdate {
    pub(crate) at: i64,
    pub(crate) process: Arc<str>,
    pub(crate) table: String,
    /// The job; of a lease, its first one.
    pub(crate) job: Option<i64>,
    pub(crate) columns: Vec<String>,
}

/// Installs the triggers.
pub(super) fn install(client: &mut Client) {
    client
        .batch_execute(include_str!("updates.sql"))
        .expect("install the trace of updates");
}

/// Reads the updates, in order.
pub(crate) fn read(client: &mut Client) -> Vec<RowUpdate> {
    let query = "SELECT at, process, relation, job, changed FROM chaos.updates ORDER BY seq";
    let rows = client.query(query, &[]);
    rows.expect("read the trace of updates")
        .iter()
        .map(|row| RowUpdate {
            at: row.get(0),
            process: Arc::from(row.get::<_, &str>(1)),
            table: row.get(2),
            job: row.get(3),
            columns: row.get(4),
        })
        .collect()
}
