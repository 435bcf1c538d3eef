//! The database trace: row changes recorded by triggers, by job.

pub(crate) mod breakers;
pub(crate) mod leftovers;
pub(crate) mod letters;
pub(crate) mod policies;
pub(crate) mod updates;

use std::collections::HashMap;
use std::sync::Arc;

use postgres::Client;
use postgres::fallible_iterator::FallibleIterator as _;
use uuid::Uuid;

use crate::facts::Facts;

/// A change of one row, as far as it concerns one job.
#[derive(Clone, Debug)]
pub(crate) struct RowChange {
    pub(crate) seq: i64,
    pub(crate) at: i64,
    /// When the statement started: its decisions use this time.
    pub(crate) began: i64,
    /// When the transaction committed. Others may see the change slightly later.
    pub(crate) committed: i64,
    pub(crate) tx: i64,
    /// The `application_name` of the connection.
    pub(crate) process: Arc<str>,
    pub(crate) job: i64,
    pub(crate) place: Place,
    pub(crate) change: Change,
    pub(crate) attempt: i32,
    pub(crate) max_attempts: i32,
    pub(crate) generation: i32,
    pub(crate) crashes: i32,
    pub(crate) refunds: i32,
    pub(crate) lease: Option<Uuid>,
    pub(crate) worker: Option<Uuid>,
    pub(crate) state: Option<Arc<str>>,
    pub(crate) cause: Option<Arc<str>>,
    /// The key that its enqueuer put into the payload.
    pub(crate) key: Option<i64>,
    pub(crate) unique_key: Option<Arc<str>>,
    pub(crate) due: Option<i64>,
    /// Since when a ready job waits.
    pub(crate) ready_at: Option<i64>,
    /// Whether its lease went on with other jobs.
    pub(crate) is_partial: bool,
    /// Whether the row is a ready job that waits for its group.
    pub(crate) is_waiting: bool,
    /// Whether its letter is in the archive: it came from there, or went there.
    pub(crate) is_archived: bool,
    /// The content, where a row was inserted or changed.
    pub(crate) facts: Option<Arc<Facts>>,
}

/// Where a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Ready,
    Delayed,
    Leased,
    Letter,
}

/// How a row changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    In,
    Out,
    Updated,
    /// The content of the row changed, but not the state of the job.
    Edited,
    Truncated,
}

/// A renewal of a worker's lease.
#[derive(Clone, Debug)]
pub(crate) struct Renewal {
    pub(crate) at: i64,
    /// When its statement started. The lease counts from some moment between the two.
    pub(crate) began: i64,
    pub(crate) worker: Uuid,
    pub(crate) process: Arc<str>,
    pub(crate) queue: Arc<str>,
}

/// A change of a turn of a group.
#[derive(Clone, Debug)]
pub(crate) struct SlotChange {
    /// In one sequence with the row changes.
    pub(crate) seq: i64,
    pub(crate) at: i64,
    pub(crate) tx: i64,
    pub(crate) process: Arc<str>,
    pub(crate) job: i64,
    pub(crate) queue: Arc<str>,
    pub(crate) group: Arc<str>,
    pub(crate) change: Turn,
}

/// A change of the pause of a queue.
#[derive(Clone, Debug)]
pub(crate) struct PauseChange {
    pub(crate) at: i64,
    pub(crate) committed: i64,
    pub(crate) queue: Arc<str>,
    /// When the pause ends by itself.
    pub(crate) ends_at: i64,
}

/// How a turn changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// A live job has it now.
    Taken,
    /// A letter has it now.
    Held,
    Freed,
}

/// Installs the triggers in a migrated database.
pub(crate) fn install(client: &mut Client) {
    client
        .batch_execute(include_str!("db_trace.sql"))
        .expect("install the trace");
    letters::install(client);
    policies::install(client);
    breakers::install(client);
    updates::install(client);
}

/// Reads the trace, by job and then in order.
pub(crate) fn read(client: &mut Client) -> Vec<RowChange> {
    let mut texts: HashMap<String, Arc<str>> = HashMap::new();
    let mut text_of = move |text: String| -> Arc<str> {
        Arc::clone(
            texts
                .entry(text)
                .or_insert_with_key(|text| Arc::from(text.as_str())),
        )
    };
    let query = "SELECT seq, at, tx, process, job, place::text, change::text, attempt, max_attempts, generation, crashes,
                        refunds, lease, worker, state, cause, key, unique_key, due, began,
                        coalesce((extract(epoch FROM pg_xact_commit_timestamp(tx::text::xid)) * 1000000)::bigint, at),
                        coalesce(is_partial, false), kind, priority, payload, enqueued, headers, group_key, history, error, died_at, position,
                        queue, coalesce(is_waiting, false), coalesce(is_archived, false), class, ready_at
                 FROM chaos.trace ORDER BY job, seq";
    let mut rows = client
        .query_raw(query, std::iter::empty::<i32>())
        .expect("read the trace");
    let mut changes = Vec::new();
    while let Some(row) = rows.next().expect("read the trace") {
        let facts = row.get::<_, Option<String>>(22).map(|kind| {
            let mut text = |at: usize| row.get::<_, Option<String>>(at).map(&mut text_of);
            Arc::new(Facts {
                priority: row.get(23),
                payload: text(24).unwrap_or_else(|| Arc::from("")),
                enqueued: row.get(25),
                headers: text(26),
                group_key: text(27),
                history: text(28),
                error: text(29),
                class: text(35),
                died_at: text(30),
                position: text(31),
                unique_key: text(17),
                queue: text(32).unwrap_or_else(|| Arc::from("")),
                kind: text_of(kind),
            })
        });
        let number = |at: usize| row.get::<_, Option<i32>>(at).unwrap_or_default();
        changes.push(RowChange {
            seq: row.get(0),
            at: row.get(1),
            tx: row.get(2),
            process: text_of(row.get(3)),
            job: row.get(4),
            place: match row.get::<_, &str>(5) {
                "r" => Place::Ready,
                "d" => Place::Delayed,
                "l" => Place::Leased,
                _ => Place::Letter,
            },
            change: match row.get::<_, &str>(6) {
                "i" => Change::In,
                "o" => Change::Out,
                "t" => Change::Truncated,
                "e" => Change::Edited,
                _ => Change::Updated,
            },
            attempt: number(7),
            max_attempts: number(8),
            generation: number(9),
            crashes: number(10),
            refunds: number(11),
            lease: row.get(12),
            worker: row.get(13),
            state: row.get::<_, Option<String>>(14).map(&mut text_of),
            cause: row.get::<_, Option<String>>(15).map(&mut text_of),
            key: row.get(16),
            unique_key: row.get::<_, Option<String>>(17).map(&mut text_of),
            due: row.get(18),
            ready_at: row.get(36),
            began: row.get(19),
            committed: row.get(20),
            is_partial: row.get(21),
            is_waiting: row.get(33),
            is_archived: row.get(34),
            facts,
        });
    }
    changes
}

/// Reads the renewals of all workers, in order.
pub(crate) fn renewals(client: &mut Client) -> Vec<Renewal> {
    let rows = client.query(
        "SELECT at, worker, began, process, queue FROM chaos.renewals ORDER BY seq",
        &[],
    );
    rows.expect("read the renewals")
        .iter()
        .map(|row| Renewal {
            at: row.get(0),
            worker: row.get(1),
            began: row.get(2),
            process: Arc::from(row.get::<_, &str>(3)),
            queue: Arc::from(row.get::<_, &str>(4)),
        })
        .collect()
}

/// Reads the changes of the turns of groups, in order.
pub(crate) fn slots(client: &mut Client) -> Vec<SlotChange> {
    let query = "SELECT seq, at, tx, process, job, queue, group_key, change::text FROM chaos.slots ORDER BY seq";
    let rows = client.query(query, &[]).expect("read the turns of groups");
    rows.iter()
        .map(|row| SlotChange {
            seq: row.get(0),
            at: row.get(1),
            tx: row.get(2),
            process: Arc::from(row.get::<_, &str>(3)),
            job: row.get(4),
            queue: Arc::from(row.get::<_, &str>(5)),
            group: Arc::from(row.get::<_, &str>(6)),
            change: match row.get::<_, &str>(7) {
                "o" => Turn::Freed,
                "h" => Turn::Held,
                _ => Turn::Taken,
            },
        })
        .collect()
}

/// Reads the changes of pauses, in order.
pub(crate) fn pauses(client: &mut Client) -> Vec<PauseChange> {
    let query = "SELECT at, queue, ends_at,
                        coalesce((extract(epoch FROM pg_xact_commit_timestamp(tx::text::xid)) * 1000000)::bigint, at)
                 FROM chaos.pauses ORDER BY seq";
    let rows = client.query(query, &[]).expect("read the pauses");
    rows.iter()
        .map(|row| PauseChange {
            at: row.get(0),
            queue: Arc::from(row.get::<_, &str>(1)),
            ends_at: row.get::<_, Option<i64>>(2).unwrap_or(i64::MAX),
            committed: row.get(3),
        })
        .collect()
}
