//! Migrations: forward only, checksummed, safe for any number of migrators at once.
//!
//! The only place that runs DDL. Each migration is a transaction of its own under one advisory
//! lock; whoever waited for the lock looks again at what is there.

use std::fmt::Write as _;

use postgres::error::SqlState;
use postgres::types::Type;
use postgres::{IsolationLevel, Row, SimpleQueryRow};

use crate::database::Database;
use crate::error::{Error, Result};
use crate::session::Session;
use crate::sql;

/// One migration: its number, its name and its SQL.
#[derive(Debug)]
struct Migration {
    version: i32,
    name: &'static str,
    text: &'static str,
}

impl Migration {
    /// Whether a library without it must not run on a schema with it.
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
            text: include_str!(concat!("../migrations/", $name, ".sql")),
        }),*];
    };
}

migrations! {
    1 "0001_create_jobs";
    2 "0002_create_delayed_jobs";
    3 "0003_create_leases";
    4 "0004_create_dead_letters";
    5 "0005_create_functions";
    6 "0006_create_views";
    7 "0007_group_failures";
    8 "0008_filter_letters";
    9 "0009_create_audit";
    10 "0010_add_unique_jobs";
    11 "0011_create_breakers";
    12 "0012_create_redrive_runs";
    13 "0013_keep_versions_of_letters";
    14 "0014_create_policies";
    15 "0015_create_retention";
    16 "0016_count_jobs";
    17 "0017_read_metrics";
    18 "0018_grant_roles";
    19 "0019_order_captures";
}

/// Where it is written which migrations a database has had.
const CREATE_LEDGER: &str = "\
CREATE SCHEMA IF NOT EXISTS redrive;
CREATE TABLE redrive.migrations (
    version    integer     NOT NULL PRIMARY KEY,
    name       text        NOT NULL,
    checksum   text        NOT NULL,
    breaking   boolean     NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    applied_by text        NOT NULL DEFAULT session_user
)";

const LEDGER_IS_THERE: &str = "SELECT to_regclass('redrive.migrations') IS NOT NULL";

/// The advisory lock of migrators: an arbitrary number that only redrive uses.
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
    /// Brings the schema up to this library's version; answers what was applied, in order.
    ///
    /// Eight processes may do it at once. Each migration is one transaction; one that cannot get
    /// a lock within 5 seconds fails rather than stall the queue behind it, and can be repeated.
    /// It may take as long as it needs; what it waits for is a server that shows life.
    ///
    /// # Errors
    /// *Schema newer* when a newer version of redrive made a breaking change; *invalid* when a
    /// migration that was applied differs from the one in this library, or one before it was not
    /// applied; *unavailable* when the server is silent, also on another connection, for the time
    /// of a call. In the first two cases nothing was changed.
    pub fn migrate(&self) -> Result<Vec<Applied>> {
        self.call_while_it_lives("migrate the schema", |session| {
            let mut applied = Vec::new();
            for migration in MIGRATIONS {
                if apply(session, migration)? {
                    applied.push(Applied {
                        version: migration.version,
                        name: migration.name.to_owned(),
                    });
                }
            }
            Ok(applied)
        })
    }

    /// Checks that the schema is the one that this library needs. Changes nothing.
    ///
    /// # Errors
    /// *Migration required* when it is missing or older; *schema newer* when a newer version of
    /// redrive made a breaking change; *invalid* when an applied migration differs from ours, or
    /// one before it was not applied.
    pub fn check_schema(&self) -> Result<()> {
        self.call("check the schema", |session| {
            let ledger = ledger(session)?;
            examine(&ledger)?;
            let missing = missing(&ledger);
            if missing.is_empty() {
                return Ok(());
            }
            Err(Error::migration_required(format!(
                "the schema `redrive` lacks {}; run `redrive migrate`",
                missing.join(", ")
            )))
        })
    }
}

/// All the SQL of the schema, to be applied by a tool of yours, in one piece.
///
/// It keeps the same ledger as [`Database::migrate`], so both can be mixed. It is for a database
/// without redrive: later versions print what to add in their release notes.
pub fn print() -> String {
    let mut script = format!("BEGIN ISOLATION LEVEL READ COMMITTED;\n{LOCK};\n{CREATE_LEDGER};\n");
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

/// What the database says about a migration it has had.
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

fn entries(rows: &[Row]) -> Vec<Entry> {
    let entry = |row: &Row| Entry {
        version: row.get("version"),
        name: row.get("name"),
        checksum: row.get("checksum"),
        breaking: row.get("breaking"),
    };
    rows.iter().map(entry).collect()
}

/// Where the schema of a database stands.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Standing {
    /// The last migration that it has had; 0: none.
    pub(crate) version: i32,
    /// Whether this library can work on it.
    pub(crate) is_known: bool,
}

/// Where it stands, by its ledger as `schema_version` reads it.
pub(crate) fn standing(rows: &[SimpleQueryRow]) -> Standing {
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
    Standing {
        version: ledger.iter().map(|entry| entry.version).max().unwrap_or(0),
        is_known: examine(&ledger).is_ok() && missing(&ledger).is_empty(),
    }
}

/// The names of our migrations that were not applied.
fn missing(ledger: &[Entry]) -> Vec<&'static str> {
    let is_applied = |version| ledger.iter().any(|entry| entry.version == version);
    let missing = MIGRATIONS
        .iter()
        .filter(|migration| !is_applied(migration.version));
    missing.map(|migration| migration.name).collect()
}

/// Compares what was applied with what this library knows.
fn examine(ledger: &[Entry]) -> Result<()> {
    for entry in ledger {
        match MIGRATIONS
            .iter()
            .find(|migration| migration.version == entry.version)
        {
            Some(migration) if checksum(migration.text) != entry.checksum => {
                return Err(Error::invalid(format!(
                    "migration `{}` was applied with other text than this program's; a released migration never changes",
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
    // Those after it stand on it, and it would undo what they changed.
    let last = ledger.iter().max_by_key(|entry| entry.version);
    if let Some((last, left_out)) = last.zip(left_out(ledger)) {
        return Err(Error::invalid(format!(
            "the schema `redrive` never had the migration `{left_out}` and had `{}` after it; \
             migrations are applied in their order, so this one cannot be made up for",
            last.name
        )));
    }
    Ok(())
}

/// The first of our migrations that was left out: a later one was applied, of whatever version.
fn left_out(ledger: &[Entry]) -> Option<&'static str> {
    let last = ledger.iter().map(|entry| entry.version).max()?;
    let applied = |version| ledger.iter().any(|entry| entry.version == version);
    MIGRATIONS
        .iter()
        .find(|migration| migration.version < last && !applied(migration.version))
        .map(|migration| migration.name)
}

/// Applies one migration unless it was; the lock makes the look and the act one.
fn apply(session: &mut Session, migration: &Migration) -> Result<bool> {
    let doing = format!("apply migration `{}`", migration.name);
    let failed = |error| Error::from_postgres(doing.clone(), error);
    // Whoever waited for the lock must see what was done meanwhile, whatever the database's default.
    let mut transaction = session
        .client()
        .build_transaction()
        .isolation_level(IsolationLevel::ReadCommitted)
        .start()
        .map_err(failed)?;
    transaction
        .batch_execute(
            "SET LOCAL statement_timeout = 0; SET LOCAL idle_in_transaction_session_timeout = 0",
        )
        .map_err(failed)?;
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
    // Before anything is changed, and under the lock: another version may be at it, too. Whatever is
    // beyond what this library knows must be harmless to it.
    let ledger = entries(&rows);
    examine(&ledger)?;
    if ledger
        .iter()
        .any(|entry| entry.version == migration.version)
    {
        return Ok(false);
    }
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
    transaction.commit().map_err(failed)?;
    Ok(true)
}

/// A checksum against accidents, not against enemies: 64 bits of FNV-1a
/// (<http://www.isthe.com/chongo/tech/comp/fnv/>), in hexadecimal.
fn checksum(text: &str) -> String {
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    format!("{hash:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn migrations_are_numbered_in_order_and_say_whether_they_break() {
        for (index, migration) in MIGRATIONS.iter().enumerate() {
            assert_eq!(migration.version, i32::try_from(index).expect("few") + 1);
            assert!(
                migration
                    .name
                    .starts_with(&format!("{:04}_", migration.version))
            );
            for heading in ["-- Purpose:", "-- Locks:", "-- Safe under", "-- breaking:"] {
                assert!(
                    migration.text.contains(heading),
                    "{}: {heading}",
                    migration.name
                );
            }
        }
    }

    #[test]
    fn the_checksum_is_the_published_one() {
        // Test vectors of the FNV authors.
        assert_eq!(checksum(""), "cbf29ce484222325");
        assert_eq!(checksum("foobar"), "85944171f73967e8");
    }

    /// The ledger of a database that had these, each with whether it breaks: ours when it is known.
    fn ledger(versions: &[(i32, bool)]) -> Vec<Entry> {
        let entry = |&(version, breaking): &(i32, bool)| {
            let ours = MIGRATIONS.iter().find(|ours| ours.version == version);
            Entry {
                version,
                name: ours.map_or_else(|| format!("{version:04}_later"), |ours| ours.name.into()),
                checksum: ours.map_or_else(String::new, |ours| checksum(ours.text)),
                breaking,
            }
        };
        versions.iter().map(entry).collect()
    }

    #[test]
    fn a_ledger_is_good_when_it_has_ours_from_the_first_on_and_nothing_that_breaks() {
        let last = MIGRATIONS.last().expect("a migration").version;
        let ours = || (1..=last).map(|version| (version, false));
        for (had, missing_at_most, is_good) in [
            (vec![], last, true),
            (ours().take(1).collect(), last - 1, true),
            (ours().collect(), 0, true),
            (ours().chain([(last + 1, false)]).collect(), 0, true),
            (ours().chain([(last + 1, true)]).collect(), 0, false),
            (
                ours().filter(|(version, _)| *version != 9).collect(),
                1,
                false,
            ),
            (ours().skip(1).collect(), 1, false),
            // A later one, whatever it is, came after one of ours that is not there.
            (
                ours().take(3).chain([(last + 1, false)]).collect(),
                last - 3,
                false,
            ),
        ] {
            let ledger = ledger(&had);
            assert_eq!(examine(&ledger).is_ok(), is_good, "{had:?}");
            let missing = i32::try_from(missing(&ledger).len());
            assert_eq!(missing, Ok(missing_at_most), "{had:?}");
        }
        let gap = examine(&ledger(&[(1, true), (3, true)])).expect_err("2 is not there");
        assert!(
            gap.is_invalid() && gap.to_string().contains("0002_"),
            "{gap}"
        );
    }
}
