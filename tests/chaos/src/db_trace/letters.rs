//! The rows of letters and of the archive, as triggers recorded them.

use std::sync::Arc;

use postgres::Client;

use crate::db_trace::Change;

/// A change of a letter's row, or of its row in the archive.
#[derive(Clone, Debug)]
pub(crate) struct LetterRow {
    pub(crate) at: i64,
    /// When the statement started.
    pub(crate) began: i64,
    pub(crate) tx: i64,
    pub(crate) process: Arc<str>,
    pub(crate) letter: i64,
    pub(crate) table: LetterTable,
    pub(crate) change: Change,
    /// The columns that an update changed.
    pub(crate) columns: Vec<String>,
    pub(crate) state: Arc<str>,
    pub(crate) cause: Arc<str>,
    pub(crate) class: Arc<str>,
    pub(crate) message: Arc<str>,
    pub(crate) counts: LetterCounts,
    pub(crate) group: i64,
    /// The policy that redrove it last.
    pub(crate) policy: Option<i64>,
    /// The run that redrove it last.
    pub(crate) run: Option<RunOrigin>,
    /// When redrive says that it changed and that its job died.
    pub(crate) changed_at: i64,
    pub(crate) died_at: i64,
    /// A digest of what the archive must keep.
    pub(crate) content: Arc<str>,
    /// Whether it has a value that must be redacted.
    pub(crate) has_secret: bool,
}

/// The creator of a run, and its reason, which names the operation.
#[derive(Clone, Debug)]
pub(crate) struct RunOrigin {
    pub(crate) by: Arc<str>,
    pub(crate) reason: Arc<str>,
}

/// The table of a letter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LetterTable {
    Letters,
    Archive,
}

/// The counts of a letter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LetterCounts {
    pub(crate) generation: i32,
    pub(crate) attempts: i32,
    pub(crate) earlier: i32,
    pub(crate) deaths: i32,
    pub(crate) alike: i32,
    pub(crate) failed: i32,
    pub(crate) edits: i32,
    pub(crate) seen: i64,
}

/// Installs the triggers.
pub(super) fn install(client: &mut Client) {
    client
        .batch_execute(include_str!("letters.sql"))
        .expect("install the trace of letters");
}

/// Reads the changes, by letter and then in order.
pub(crate) fn read(client: &mut Client) -> Vec<LetterRow> {
    let query = "SELECT at, began, tx, process, letter, place::text, change::text, changed, state, cause, class, message,
                        generation, attempts, earlier, deaths, alike, failed, edits, seen, group_id, policy,
                        changed_at, died_at, content, has_secret, run_by, run_reason
                 FROM chaos.letters ORDER BY letter, seq";
    let rows = client.query(query, &[]).expect("read the trace of letters");
    rows.iter()
        .map(|row| {
            let text = |at: usize| Arc::from(row.get::<_, Option<&str>>(at).unwrap_or_default());
            let number = |at: usize| row.get::<_, Option<i32>>(at).unwrap_or_default();
            let large = |at: usize| row.get::<_, Option<i64>>(at).unwrap_or_default();
            LetterRow {
                at: row.get(0),
                began: row.get(1),
                tx: row.get(2),
                process: text(3),
                letter: row.get(4),
                table: match row.get(5) {
                    "a" => LetterTable::Archive,
                    _ => LetterTable::Letters,
                },
                change: match row.get(6) {
                    "i" => Change::In,
                    "o" => Change::Out,
                    _ => Change::Updated,
                },
                columns: row.get(7),
                state: text(8),
                cause: text(9),
                class: text(10),
                message: text(11),
                counts: LetterCounts {
                    generation: number(12),
                    attempts: number(13),
                    earlier: number(14),
                    deaths: number(15),
                    alike: number(16),
                    failed: number(17),
                    edits: number(18),
                    seen: large(19),
                },
                group: large(20),
                policy: row.get(21),
                run: row.get::<_, Option<&str>>(26).map(|by| RunOrigin {
                    by: Arc::from(by),
                    reason: text(27),
                }),
                changed_at: large(22),
                died_at: large(23),
                content: text(24),
                has_secret: row.get(25),
            }
        })
        .collect()
}
