//! The trail: what the triggers in the database wrote down, by job.

use std::collections::HashMap;
use std::sync::Arc;

use postgres::Client;
use postgres::fallible_iterator::FallibleIterator as _;
use uuid::Uuid;

/// A change of one row that is about a job.
#[derive(Clone, Debug)]
pub(crate) struct Event {
    pub(crate) seq: i64,
    pub(crate) at: i64,
    /// When the statement began that did it: what it decided, it decided then.
    pub(crate) began: i64,
    /// When its transaction was committed; others may see it a moment later.
    pub(crate) committed: i64,
    pub(crate) tx: i64,
    pub(crate) actor: Arc<str>,
    pub(crate) job: i64,
    pub(crate) place: Place,
    pub(crate) step: Step,
    pub(crate) attempt: i32,
    pub(crate) most: i32,
    pub(crate) generation: i32,
    pub(crate) crashes: i32,
    pub(crate) refunds: i32,
    pub(crate) lease: Option<Uuid>,
    pub(crate) worker: Option<Uuid>,
    pub(crate) state: Option<Arc<str>>,
    pub(crate) reason: Option<Arc<str>>,
    /// What its enqueuer called it.
    pub(crate) key: Option<i64>,
    /// The unique key.
    pub(crate) held_key: Option<Arc<str>>,
    pub(crate) due: Option<i64>,
}

/// Where a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Place {
    Ready,
    Delayed,
    Leased,
    Letter,
}

/// What happened to it there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    In,
    Out,
    Changed,
    Truncated,
}

/// A renewal of a worker.
#[derive(Clone, Debug)]
pub(crate) struct Renewal {
    pub(crate) at: i64,
    /// When its statement began: it lasts from some moment between the two.
    pub(crate) began: i64,
    pub(crate) worker: Uuid,
}

/// Puts the trail into a migrated database.
pub(crate) fn install(client: &mut Client) {
    client
        .batch_execute(include_str!("audit.sql"))
        .expect("install the trail");
}

/// Reads it, job by job, each in the order in which things happened.
pub(crate) fn read(client: &mut Client) -> Vec<Event> {
    let mut words: HashMap<String, Arc<str>> = HashMap::new();
    let mut word = move |text: String| -> Arc<str> {
        Arc::clone(
            words
                .entry(text)
                .or_insert_with_key(|text| Arc::from(text.as_str())),
        )
    };
    let asked = "SELECT seq, at, tx, actor, job, place::text, step::text, attempt, most, generation, crashes,
                        refunds, lease, worker, state, reason, key, held_key, due, began,
                        coalesce((extract(epoch FROM pg_xact_commit_timestamp(tx::text::xid)) * 1000000)::bigint, at)
                 FROM chaos.trail ORDER BY job, seq";
    let mut rows = client
        .query_raw(asked, std::iter::empty::<i32>())
        .expect("read the trail");
    let mut events = Vec::new();
    while let Some(row) = rows.next().expect("read the trail") {
        let number = |at: usize| row.get::<_, Option<i32>>(at).unwrap_or_default();
        events.push(Event {
            seq: row.get(0),
            at: row.get(1),
            tx: row.get(2),
            actor: word(row.get(3)),
            job: row.get(4),
            place: match row.get::<_, &str>(5) {
                "r" => Place::Ready,
                "d" => Place::Delayed,
                "l" => Place::Leased,
                _ => Place::Letter,
            },
            step: match row.get::<_, &str>(6) {
                "i" => Step::In,
                "o" => Step::Out,
                "t" => Step::Truncated,
                _ => Step::Changed,
            },
            attempt: number(7),
            most: number(8),
            generation: number(9),
            crashes: number(10),
            refunds: number(11),
            lease: row.get(12),
            worker: row.get(13),
            state: row.get::<_, Option<String>>(14).map(&mut word),
            reason: row.get::<_, Option<String>>(15).map(&mut word),
            key: row.get(16),
            held_key: row.get::<_, Option<String>>(17).map(&mut word),
            due: row.get(18),
            began: row.get(19),
            committed: row.get(20),
        });
    }
    events
}

/// Reads when workers renewed, in that order.
pub(crate) fn renewals(client: &mut Client) -> Vec<Renewal> {
    let rows = client.query(
        "SELECT at, worker, began FROM chaos.renewals ORDER BY seq",
        &[],
    );
    rows.expect("read the renewals")
        .iter()
        .map(|row| Renewal {
            at: row.get(0),
            worker: row.get(1),
            began: row.get(2),
        })
        .collect()
}
