//! The changes of breakers, as a trigger recorded them.

use std::sync::Arc;

use postgres::Client;
use uuid::Uuid;

/// A breaker after a change.
#[derive(Clone, Debug)]
pub(crate) struct BreakerRow {
    pub(crate) at: i64,
    /// When its statement started.
    pub(crate) began: i64,
    /// When the transaction committed.
    pub(crate) committed: i64,
    pub(crate) process: Arc<str>,
    pub(crate) name: Arc<str>,
    pub(crate) state: Arc<str>,
    pub(crate) cause: Arc<str>,
    /// The kinds that it holds back; empty: all of its queue.
    pub(crate) kinds: Vec<String>,
    pub(crate) outages: i64,
    pub(crate) openings: i64,
    pub(crate) probes: i64,
    pub(crate) prober: Option<Uuid>,
    pub(crate) delay_ms: i64,
    pub(crate) probe_at: Option<i64>,
}

/// Installs the trigger.
pub(super) fn install(client: &mut Client) {
    client
        .batch_execute(include_str!("breakers.sql"))
        .expect("install the trace of breakers");
}

/// Reads the changes, by breaker and then in order.
pub(crate) fn read(client: &mut Client) -> Vec<BreakerRow> {
    let query = "SELECT at, began,
                        coalesce((extract(epoch FROM pg_xact_commit_timestamp(tx::text::xid)) * 1000000)::bigint, at),
                        process, name, state, cause, kinds, outages, openings, probes, prober, delay_ms, probe_at
                 FROM chaos.breakers ORDER BY name, seq";
    let rows = client
        .query(query, &[])
        .expect("read the trace of breakers");
    rows.iter()
        .map(|row| {
            let text = |at: usize| Arc::from(row.get::<_, &str>(at));
            BreakerRow {
                at: row.get(0),
                began: row.get(1),
                committed: row.get(2),
                process: text(3),
                name: text(4),
                state: text(5),
                cause: text(6),
                kinds: row.get(7),
                outages: row.get(8),
                openings: row.get(9),
                probes: row.get(10),
                prober: row.get(11),
                delay_ms: row.get(12),
                probe_at: row.get(13),
            }
        })
        .collect()
}
