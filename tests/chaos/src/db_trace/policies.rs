//! The ticks of policies, as a trigger recorded them.

use std::sync::Arc;

use postgres::Client;

/// A tick of a policy.
#[derive(Clone, Debug)]
pub(crate) struct PolicyTick {
    /// When its statement started.
    pub(crate) began: i64,
    pub(crate) tx: i64,
    pub(crate) process: Arc<str>,
    pub(crate) policy: i64,
    /// When it was due, and when the next one is.
    pub(crate) due: i64,
    pub(crate) next: i64,
    /// How many letters it redrove, as the policy has it.
    pub(crate) letters: i64,
    pub(crate) error: Option<String>,
    pub(crate) left: Option<LeftLetter>,
}

/// The oldest letter without a unique key that a tick left although it matched and no session had locked it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LeftLetter {
    pub(crate) letter: i64,
    /// The transaction that wrote its row.
    pub(crate) version: i64,
    pub(crate) died_at: i64,
}

/// Installs the trigger.
pub(super) fn install(client: &mut Client) {
    client
        .batch_execute(include_str!("policies.sql"))
        .expect("install the trace of policies");
}

/// Reads the ticks, in order.
pub(crate) fn read(client: &mut Client) -> Vec<PolicyTick> {
    let query = "SELECT began, tx, process, policy, due, next, letters, error, left_letter, left_version, left_died_at
                 FROM chaos.policy_ticks ORDER BY seq";
    let rows = client
        .query(query, &[])
        .expect("read the trace of policies");
    rows.iter()
        .map(|row| PolicyTick {
            began: row.get(0),
            tx: row.get(1),
            process: Arc::from(row.get::<_, &str>(2)),
            policy: row.get(3),
            due: row.get(4),
            next: row.get(5),
            letters: row.get(6),
            error: row.get(7),
            left: row.get::<_, Option<i64>>(8).map(|letter| LeftLetter {
                letter,
                version: row.get(9),
                died_at: row.get(10),
            }),
        })
        .collect()
}
