//! Migrations: forward only, checksummed, safe for any number of migrators at once.
//!
//! The only place that runs DDL. All missing migrations are one transaction under one advisory lock,
//! so a database that refuses one of them is left as it was. A migrator that waited for the lock
//! re-checks which migrations were applied.

use std::fmt::Write as _;

use postgres::error::SqlState;
use postgres::types::Type;
use postgres::{IsolationLevel, Row, SimpleQueryRow};

use crate::db::database::Database;
use crate::db::obstacles::refuse_obstacles;
use crate::db::session::Session;
use crate::db::sql;
use crate::error::{Error, Result};

/// One migration: its number, its name and its SQL.
#[derive(Debug)]
struct Migration {
    version: i32,
    name: &'static str,
    text: &'static str,
}

impl Migration {
    /// True if a library without this migration must not use a schema that has it.
    fn is_breaking(&self) -> bool {
        self.text.lines().any(|line| line == "-- breaking: yes")
    }
}

macro_rules! migrations {
    ($($version:literal $name:literal;)*) => {
        /// Every migration, in order.
        static MIGRATIONS: &[Migration] = &[$(Migration {
            version: $version,
            name: $name,
            text: include_str!(concat!("../../migrations/", $name, ".sql")),
        }),*];
    };
}

migrations! {
    1 "0001_types";
    2 "0002_jobs";
    3 "0003_leases";
    4 "0004_ring";
    5 "0005_unique_keys";
    6 "0006_enqueue";
    7 "0007_dead_letters";
    8 "0008_history";
    9 "0009_audit";
    10 "0010_failure_groups";
    11 "0011_group_actions";
    12 "0012_redaction";
    13 "0013_death";
    14 "0014_group_totals";
    15 "0015_views";
    16 "0016_filter";
    17 "0017_capture";
    18 "0018_breakers";
    19 "0019_send_back";
    20 "0020_redrive";
    21 "0021_runs";
    22 "0022_run_control";
    23 "0023_run_steps";
    24 "0024_drive_run";
    25 "0025_letter_versions";
    26 "0026_policies";
    27 "0027_policy_ticks";
    28 "0028_retention";
    29 "0029_archive";
    30 "0030_counters";
    31 "0031_counter_folding";
    32 "0032_letter_counters";
    33 "0033_counter_totals";
    34 "0034_metrics_queues";
    35 "0035_metrics_operations";
    36 "0036_metrics_tables";
    37 "0037_metrics_server";
    38 "0038_roles";
    39 "0039_compaction";
    40 "0040_redact_letters";
    41 "0041_fingerprint";
    42 "0042_dlq_events";
    43 "0043_event_changes";
    44 "0044_live_jobs";
    45 "0045_capture_many";
    46 "0046_erase";
    47 "0047_gameday";
    48 "0048_queue_pauses";
    49 "0049_schedules";
    50 "0050_job_groups";
    51 "0051_rate_limits";
    52 "0052_held_groups";
    53 "0053_group_buckets";
    54 "0054_group_policies";
    55 "0055_followers";
    56 "0056_claimed_slots";
    57 "0057_repair";
}

/// The settings of the session that change how the migrations are read or what they create.
const SETTINGS: &str = "\
SET LOCAL statement_timeout = 0;
SET LOCAL idle_in_transaction_session_timeout = 0;
SET LOCAL standard_conforming_strings = on;
SET LOCAL transform_null_equals = off;
SET LOCAL quote_all_identifiers = off;
SET LOCAL default_table_access_method = heap;
SET LOCAL search_path = pg_catalog, pg_temp";

/// Refuses a database that cannot have the schema, and creates the ledger of applied migrations.
///
/// Payloads and error texts are UTF-8. Another encoding would reject some of them when a job ends.
/// A role that may not create schemas may own this one.
const CREATE_LEDGER: &str = "\
DO $$
DECLARE
    other text;
BEGIN
    IF current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION 'redrive: the database % has the encoding %; redrive needs UTF8',
            current_database(), current_setting('server_encoding')
            USING HINT = 'CREATE DATABASE ... TEMPLATE template0 ENCODING ''UTF8''',
                  ERRCODE = 'feature_not_supported';
    END IF;
    SELECT min(o.name) INTO other
    FROM (
        SELECT 'relation ' || c.relname AS name, c.relnamespace AS namespace FROM pg_class c
        UNION ALL SELECT 'function ' || p.proname, p.pronamespace FROM pg_proc p
        UNION ALL SELECT 'type ' || t.typname, t.typnamespace FROM pg_type t
    ) o
    JOIN pg_namespace n ON n.oid = o.namespace
    WHERE n.nspname = 'redrive';
    IF other IS NOT NULL THEN
        RAISE EXCEPTION 'redrive: the schema redrive of the database % belongs to something else, because it has the %; rename it: ALTER SCHEMA redrive RENAME TO another_name',
            current_database(), other
            USING ERRCODE = 'duplicate_schema';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_namespace n WHERE n.nspname = 'redrive') THEN
        CREATE SCHEMA redrive;
    END IF;
END
$$;
CREATE TABLE redrive.migrations (
    version    integer     NOT NULL PRIMARY KEY,
    name       text        NOT NULL,
    checksum   text        NOT NULL,
    breaking   boolean     NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    applied_by text        NOT NULL DEFAULT session_user
)";

/// Whether the ledger is there, and not another table of this name.
const LEDGER_IS_THERE: &str = "\
SELECT count(*) = 3
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'redrive' AND c.relname = 'migrations' AND a.attname IN ('version', 'checksum', 'breaking')";

/// Takes the advisory lock of migrators, an arbitrary number that only redrive uses.
const LOCK: &str = "SELECT pg_advisory_xact_lock(8241006119173)";

/// A migration that a call applied.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Applied {
    /// Its number.
    pub version: i32,
    /// Its name.
    pub name: String,
}

impl Database {
    /// Applies the missing migrations and returns them in order.
    ///
    /// Several processes can migrate concurrently. All missing migrations are one transaction. It
    /// fails if it cannot get a lock within 5 seconds, so that it does not block other sessions, and
    /// can be repeated. There is no other time limit while the server responds.
    ///
    /// # Errors
    /// *Schema newer* when a newer version of redrive made a breaking change; *invalid* when an
    /// applied migration differs from the one in this library, or an earlier one is missing;
    /// *unavailable* when the server does not respond, on a second connection either, within the
    /// call timeout. An error changes nothing, unless the answer to the commit was lost.
    pub fn migrate(&self) -> Result<Vec<Applied>> {
        self.call_while_alive("migrate the schema", apply_missing)
    }

    /// Checks that the schema has every migration of this library, without changing it, and that
    /// this role can use it; see [`check_session`](Database::check_session).
    ///
    /// # Errors
    /// *Migration required* when it is missing or older; *schema newer* when a newer version of
    /// redrive made a breaking change; *invalid* when an applied migration differs from the one in
    /// this library, or an earlier one is missing.
    pub fn check_schema(&self) -> Result<()> {
        self.call("check the schema", |session| {
            let ledger = ledger(session)?;
            examine(&ledger)?;
            let missing: Vec<&str> = missing(&ledger).iter().map(|one| one.name).collect();
            if missing.is_empty() {
                return refuse_obstacles(session);
            }
            Err(Error::migration_required(format!(
                "the schema `redrive` lacks {}; run `redrive migrate`",
                missing.join(", ")
            )))
        })
    }
}

/// Returns the SQL of the whole schema as one script, for your own migration tool.
///
/// The script writes the same ledger as [`Database::migrate`], so you can use both. It is for a
/// database without redrive; release notes list the migrations to add for an upgrade.
pub fn print() -> String {
    let mut script =
        format!("BEGIN ISOLATION LEVEL READ COMMITTED;\n{SETTINGS};\n{LOCK};\n{CREATE_LEDGER};\n");
    for migration in MIGRATIONS {
        // Writing to a String cannot fail.
        _ = write!(
            script,
            "\n-- {name}\n{text}\nINSERT INTO redrive.migrations (version, name, checksum, breaking)\n\
             VALUES ({version}, '{name}', '{checksum}', {breaking});\n",
            name = migration.name,
            text = migration.text,
            version = migration.version,
            checksum = checksum(migration.text),
            breaking = migration.is_breaking(),
        );
    }
    script.push_str("\nCOMMIT;\n");
    script
}

/// A row of the ledger: an applied migration.
struct Entry {
    version: i32,
    name: String,
    checksum: String,
    breaking: bool,
}

fn ledger(session: &mut Session) -> Result<Vec<Entry>> {
    let rows = match session.query("read the schema's version", &sql::SCHEMA_VERSION, &[]) {
        Err(error) if error.sql_state() == Some(&SqlState::UNDEFINED_TABLE) => {
            return Ok(Vec::new());
        }
        answer => answer?,
    };
    Ok(entries(&rows))
}

/// Returns whether the schema has migrations that this library does not know.
pub(crate) fn is_newer(session: &mut Session) -> Result<bool> {
    let last = MIGRATIONS.last().map_or(0, |migration| migration.version);
    let ledger = ledger(session)?;
    Ok(ledger.iter().any(|entry| entry.version > last))
}

fn entries(rows: &[Row]) -> Vec<Entry> {
    let entry = |row: &Row| Entry {
        version: row.get("version"),
        name: row.get("name"),
        checksum: row.get("checksum"),
        breaking: row.get("breaking"),
    };
    rows.iter().map(entry).collect()
}

/// The version of a database's schema.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SchemaVersion {
    /// The last applied migration; 0: none.
    pub(crate) version: i32,
    /// True if this library can use the schema.
    pub(crate) is_known: bool,
}

/// Returns the version from the rows of `schema_version`.
pub(crate) fn schema_version(rows: &[SimpleQueryRow]) -> SchemaVersion {
    let text = |row: &SimpleQueryRow, column| Some(row.try_get(column).ok()??.to_owned());
    let entry = |row| {
        Some(Entry {
            version: text(row, "version")?.parse().ok()?,
            name: text(row, "name")?,
            checksum: text(row, "checksum")?,
            breaking: text(row, "breaking")? == "t",
        })
    };
    let ledger: Vec<Entry> = rows.iter().filter_map(entry).collect();
    SchemaVersion {
        version: ledger.iter().map(|entry| entry.version).max().unwrap_or(0),
        is_known: examine(&ledger).is_ok() && missing(&ledger).is_empty(),
    }
}

/// Returns the library's migrations that were not applied.
fn missing(ledger: &[Entry]) -> Vec<&'static Migration> {
    let is_applied = |version| ledger.iter().any(|entry| entry.version == version);
    MIGRATIONS
        .iter()
        .filter(|migration| !is_applied(migration.version))
        .collect()
}

/// Compares the ledger with the migrations of this library.
fn examine(ledger: &[Entry]) -> Result<()> {
    for entry in ledger {
        match MIGRATIONS
            .iter()
            .find(|migration| migration.version == entry.version)
        {
            Some(migration) if checksum(migration.text) != entry.checksum => {
                return Err(Error::invalid(format!(
                    "migration `{}` was applied with a different text; a released migration never changes",
                    entry.name
                )));
            }
            Some(_) => {}
            None if entry.breaking => {
                return Err(Error::schema_newer(format!(
                    "the schema `redrive` has the breaking migration `{}` of a newer version; upgrade this program",
                    entry.name
                )));
            }
            None => {}
        }
    }
    // Later migrations build on the missing one, so it cannot be applied after them.
    let last = ledger.iter().max_by_key(|entry| entry.version);
    if let Some((last, left_out)) = last.zip(left_out(ledger)) {
        return Err(Error::invalid(format!(
            "the schema `redrive` lacks the migration `{left_out}` but has the later `{}`; \
             migrations must be applied in order, so restore a complete schema",
            last.name
        )));
    }
    Ok(())
}

/// Returns the first missing migration that is older than the last applied one.
fn left_out(ledger: &[Entry]) -> Option<&'static str> {
    let last = ledger.iter().map(|entry| entry.version).max()?;
    let applied = |version| ledger.iter().any(|entry| entry.version == version);
    MIGRATIONS
        .iter()
        .find(|migration| migration.version < last && !applied(migration.version))
        .map(|migration| migration.name)
}

/// Applies the missing migrations; the lock makes check and change atomic.
fn apply_missing(session: &mut Session) -> Result<Vec<Applied>> {
    let failed = |error| Error::from_setup("migrate the schema `redrive`", error);
    // After waiting for the lock, read what the previous migrator committed, even if the database
    // defaults to a stricter isolation level.
    let mut transaction = session
        .client()
        .build_transaction()
        .isolation_level(IsolationLevel::ReadCommitted)
        .start()
        .map_err(failed)?;
    transaction.batch_execute(SETTINGS).map_err(failed)?;
    transaction.batch_execute(LOCK).map_err(failed)?;
    transaction
        .batch_execute("SET LOCAL lock_timeout = '5s'")
        .map_err(failed)?;
    let ledger_is_there: bool = transaction
        .query_typed_one(LEDGER_IS_THERE, &[])
        .map_err(failed)?
        .get(0);
    if !ledger_is_there {
        transaction.batch_execute(CREATE_LEDGER).map_err(failed)?;
    }
    let rows = transaction
        .query_typed(sql::SCHEMA_VERSION.text, &[])
        .map_err(failed)?;
    // Checked under the lock, because a migrator of another version may run too. Newer migrations
    // must not be breaking.
    let ledger = entries(&rows);
    examine(&ledger)?;
    let mut applied = Vec::new();
    for migration in missing(&ledger) {
        let failed =
            |error| Error::from_setup(&format!("apply migration `{}`", migration.name), error);
        transaction.batch_execute(migration.text).map_err(failed)?;
        transaction
            .execute_typed(
                "INSERT INTO redrive.migrations (version, name, checksum, breaking) VALUES ($1, $2, $3, $4)",
                &[
                    (&migration.version, Type::INT4),
                    (&migration.name, Type::TEXT),
                    (&checksum(migration.text), Type::TEXT),
                    (&migration.is_breaking(), Type::BOOL),
                ],
            )
            .map_err(failed)?;
        applied.push(Applied {
            version: migration.version,
            name: migration.name.to_owned(),
        });
    }
    transaction.commit().map_err(failed)?;
    Ok(applied)
}

/// Returns the 64-bit FNV-1a hash (<http://www.isthe.com/chongo/tech/comp/fnv/>) in hexadecimal.
///
/// It detects accidents, not attacks.
fn checksum(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests;
