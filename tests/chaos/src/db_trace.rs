//! The database trace: row changes that triggers recorded, each struct with the columns of its query.

use std::sync::Arc;

use postgres::fallible_iterator::FallibleIterator as _;
use postgres::types::FromSqlOwned;
use postgres::{Client, Row};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;

use crate::facts::Facts;

/// What is read from the rows of a query.
pub(crate) trait Traced: DeserializeOwned {
    const QUERY: &'static str;
}

/// Enums, with the text of each variant.
macro_rules! variants {
    ($($(#[$doc:meta])* $name:ident { $($(#[$of:meta])* $variant:ident $text:literal,)+ })+) => {
        $($(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
        pub(crate) enum $name { $($(#[$of])* #[serde(rename = $text)] $variant,)+ }
        )+
    };
}

variants! {
    /// Where a job is.
    Place { #[default] Ready "r", Delayed "d", Leased "l", Letter "x", }

    /// How a row changed.
    Change {
        #[default]
        In "i",
        Out "o",
        Updated "u",
        /// The content of the row changed, but not the state of the job.
        Edited "e",
        Truncated "t",
    }

    /// How a turn changed.
    Turn {
        /// A live job has it now.
        #[default]
        Taken "i",
        /// A letter has it now.
        Held "h",
        Freed "o",
    }

    /// What a row of the history of a schedule says.
    TickOutcome {
        #[default]
        Fired "fired",
        Missed "missed",
        Overlapped "overlapped",
        Triggered "triggered",
    }
}

/// Structs whose fields are the columns of a query. A missing number is 0, and a missing text is empty. A struct without
/// a query is a part of another one.
macro_rules! traced {
    ($($(#[$doc:meta])* $name:ident $(from $query:literal)? {
        $($(#[$of:meta])* $field:ident: $type:ty,)+
    })+) => {
        $($(#[$doc])*
        #[derive(Clone, Debug, Default, serde::Deserialize)]
        #[serde(default)]
        pub(crate) struct $name { $($(#[$of])* pub(crate) $field: $type,)+ }

        $(impl $crate::db_trace::Traced for $name {
            const QUERY: &'static str = $query;
        })?)+
    };
}
pub(crate) use traced;

traced! {
    /// A change of one row, as far as it concerns one job.
    RowChange from "SELECT *, chaos.committed(tx, at) AS committed, CASE WHEN kind IS NOT NULL THEN to_json(t) END AS facts
                    FROM chaos.trace t ORDER BY job, seq" {
        seq: i64,
        at: i64,
        /// When the statement started: its decisions use this time.
        began: i64,
        /// When the transaction committed. Others may see the change slightly later.
        committed: i64,
        tx: i64,
        /// The `application_name` of the connection.
        process: Arc<str>,
        job: i64,
        place: Place,
        change: Change,
        attempt: i32,
        max_attempts: i32,
        generation: i32,
        crashes: i32,
        refunds: i32,
        lease: Option<Uuid>,
        worker: Option<Uuid>,
        state: Option<Arc<str>>,
        cause: Option<Arc<str>>,
        due: Option<i64>,
        /// Since when a ready job waits.
        ready_at: Option<i64>,
        /// Whether the row is a ready job that waits for its group.
        is_waiting: bool,
        /// Whether its letter is in the archive: it came from there, or went there.
        is_archived: bool,
        /// The content, where a row was inserted or changed.
        facts: Option<Arc<Facts>>,
    }

    /// A renewal of a worker's lease.
    Renewal from "SELECT * FROM chaos.renewals ORDER BY seq" {
        at: i64,
        /// When its statement started. The lease counts from some moment between the two.
        began: i64,
        worker: Uuid,
    }

    /// A change of a turn of a group, in one sequence with the row changes.
    SlotChange from "SELECT *, group_key AS \"group\" FROM chaos.slots ORDER BY seq, change <> 'o'" {
        seq: i64,
        at: i64,
        tx: i64,
        process: Arc<str>,
        job: i64,
        queue: Arc<str>,
        group: Arc<str>,
        change: Turn,
    }

    /// A row of the history of a schedule.
    Tick from "SELECT * FROM chaos.ticks ORDER BY seq" {
        schedule: String,
        outcome: TickOutcome,
        /// When the row was written.
        written: i64,
        /// The time of the tick.
        at: i64,
        /// `None`: the ticks were missed.
        job: Option<i64>,
        ticks: i64,
    }

    /// A breaker after a change.
    BreakerRow from "SELECT *, chaos.committed(tx, at) AS committed FROM chaos.breakers ORDER BY name, seq" {
        at: i64,
        began: i64,
        committed: i64,
        process: Arc<str>,
        name: Arc<str>,
        state: Arc<str>,
        /// The kinds that it holds back; empty: all of its queue.
        kinds: Vec<String>,
        outages: i64,
        probes: i64,
        probe_at: Option<i64>,
    }
}

impl RowChange {
    /// Whether it leaves a letter that waits for an operator.
    pub(crate) fn is_open_letter(&self) -> bool {
        let open = [Some("open"), Some("quarantined")];
        self.change != Change::Out && open.contains(&self.state.as_deref())
    }
}

/// Installs the triggers in a migrated database.
pub(crate) fn install(client: &mut Client) {
    for triggers in [
        include_str!("db_trace.sql"),
        include_str!("db_trace/changes.sql"),
    ] {
        client.batch_execute(triggers).expect("install the trace");
    }
}

/// Reads the records of a kind.
pub(crate) fn read<T: Traced>(client: &mut Client) -> Vec<T> {
    let rows = format!(
        "SELECT json_strip_nulls(to_json(r))::text FROM ({}) r",
        T::QUERY
    );
    query(client, &rows, |row| {
        serde_json::from_str(row.get(0)).expect(T::QUERY)
    })
}

/// Reads the only value of a query.
pub(crate) fn ask<T: FromSqlOwned>(client: &mut Client, query: &str) -> T {
    client.query_one(query, &[]).expect(query).get(0)
}

/// Reads the result of a query.
pub(crate) fn query<T>(client: &mut Client, query: &str, of: impl Fn(&Row) -> T) -> Vec<T> {
    let rows = client
        .query_raw(query, std::iter::empty::<i32>())
        .expect(query);
    rows.map(|row| Ok(of(&row))).collect().expect(query)
}
