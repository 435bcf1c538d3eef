//! Migrations: forward only, checksummed, safe for any number of migrators at once; and the definitions that they
//! leave to be replaced: functions, views and triggers.
//!
//! The only place that runs DDL, except for tools of others, which run the [scripts](all). All missing migrations and all changed definitions are one transaction under one
//! advisory lock, so a database that refuses one of them is left as it was. A migrator that waited for the lock
//! re-checks what was applied.

mod script;

use postgres::Row;
use postgres::error::SqlState;

use crate::db::database::Database;
use crate::db::obstacles::refuse_obstacles;
use crate::db::row::{read_all, row};
use crate::db::session::Session;
use crate::db::sql;
use crate::error::{Error, Result};

use script::release;
pub(crate) use script::whole;
pub use script::{Script, after, all, in_transaction};

/// A file of the schema: a migration, or a definition of functions, views or triggers, all of which replace themselves.
#[derive(Debug)]
struct File {
    /// Its path below the migrations, without the ending.
    name: &'static str,
    text: &'static str,
}

impl File {
    /// The number of a migration.
    fn version(&self) -> Option<i32> {
        self.name.get(..4)?.parse().ok()
    }

    /// The checksum of its text, and that of a definition also of what seals it.
    fn checksum(&self) -> String {
        match self.version() {
            Some(_) => checksum(self.text),
            None => checksum(&format!("{}{SEAL}", self.text)),
        }
    }

    /// True if a library without this migration must not use a schema that has it.
    fn is_breaking(&self) -> bool {
        self.text.lines().any(|line| line == "-- breaking: yes")
    }
}

macro_rules! files {
    ($(#[$about:meta])* $list:ident: $($name:literal;)*) => {
        $(#[$about])*
        static $list: &[File] = &[$(File {
            name: $name,
            text: include_str!(concat!("../../migrations/", $name, ".sql")),
        }),*];
    };
}

files! {
    /// Every migration, in order.
    MIGRATIONS:
    "0001_types";
    "0002_jobs";
    "0003_letters";
    "0004_failure_groups";
    "0005_runs";
    "0006_counters";
    "0007_gates";
    "0008_job_groups";
    "0009_schedules";
    "0010_operations";
}

files! {
    /// Every definition, after those it uses: functions, views, functions that return rows of views, triggers.
    DEFINITIONS:
    "functions/archive";
    "functions/audit";
    "functions/breakers";
    "functions/capture";
    "functions/checks";
    "functions/claimed_slots";
    "functions/done_jobs";
    "functions/compaction";
    "functions/counter_folding";
    "functions/counter_totals";
    "functions/death";
    "functions/drive_run";
    "functions/enqueue";
    "functions/erase";
    "functions/event_changes";
    "functions/failure_groups";
    "functions/filter_keys";
    "functions/filters";
    "functions/fingerprint";
    "functions/followers";
    "functions/group_actions";
    "functions/group_buckets";
    "functions/group_policies";
    "functions/group_totals";
    "functions/held_groups";
    "functions/history";
    "functions/import_letters";
    "functions/job_groups";
    "functions/jobs";
    "functions/job";
    "functions/leases";
    "functions/letter_counters";
    "functions/letter_versions";
    "functions/live_jobs";
    "functions/metrics_operations";
    "functions/metrics_queues";
    "functions/metrics_server";
    "functions/metrics_tables";
    "functions/moves";
    "functions/policies";
    "functions/protections";
    "functions/queue_pauses";
    "functions/rate_limits";
    "functions/redact_letters";
    "functions/redaction";
    "functions/redrive";
    "functions/repair";
    "functions/retention";
    "functions/ring";
    "functions/roles";
    "functions/run_control";
    "functions/runs";
    "functions/schedules";
    "functions/send_back";
    "functions/unique_keys";
    "views/dlq_events";
    "views/failure_groups";
    "views/held_groups";
    "views/letters";
    "views/live_jobs";
    "views/professions";
    "views/queues";
    "views/runs";
    "functions/job_filter";
    "functions/letter_filter";
    "triggers/dead_letters";
    "triggers/others";
}

/// The settings of the session that change how the files are read or what they create. A body may name a function
/// or a view of a later file.
pub(crate) const SETTINGS: &str = "\
SET LOCAL statement_timeout = 0;
SET LOCAL check_function_bodies = off;
SET LOCAL idle_in_transaction_session_timeout = 0;
SET LOCAL standard_conforming_strings = on;
SET LOCAL transform_null_equals = off;
SET LOCAL quote_all_identifiers = off;
SET LOCAL default_table_access_method = heap;
SET LOCAL search_path = pg_catalog, pg_temp";

/// Refuses a database that cannot have the schema, and creates the ledger of what was applied. A definition has no version,
/// but that of the `library` that applied it.
///
/// Payloads and error texts are UTF-8. Another encoding would reject some of them when a job ends.
/// A role that may not create schemas may own this one.
const CREATE_LEDGER: &str = "\
DO $$
BEGIN
    IF current_setting('server_encoding') <> 'UTF8' THEN
        RAISE EXCEPTION 'redrive: the database % has the encoding %; redrive needs UTF8',
            current_database(), current_setting('server_encoding')
            USING HINT = 'CREATE DATABASE ... TEMPLATE template0 ENCODING ''UTF8''',
                  ERRCODE = 'feature_not_supported';
    END IF;
    IF EXISTS (
        SELECT FROM pg_attribute a WHERE a.attrelid = to_regclass('redrive.migrations') AND a.attname = 'breaking')
    THEN
        RAISE EXCEPTION 'redrive: the database % has the schema already; leave out what was applied: redrive migrate --print --from N',
            current_database()
            USING ERRCODE = 'duplicate_schema';
    END IF;
    -- Functions of somebody else would get another search path, and would no longer be those of PUBLIC.
    IF EXISTS (
        SELECT FROM pg_namespace n WHERE n.nspname = 'redrive' AND n.oid IN (
            SELECT c.relnamespace FROM pg_class c UNION ALL SELECT p.pronamespace FROM pg_proc p))
    THEN
        RAISE EXCEPTION 'redrive: the schema redrive of the database % belongs to something else; rename it: ALTER SCHEMA redrive RENAME TO another_name',
            current_database()
            USING ERRCODE = 'duplicate_schema';
    END IF;
    IF NOT EXISTS (SELECT FROM pg_namespace n WHERE n.nspname = 'redrive') THEN
        CREATE SCHEMA redrive;
    END IF;
END
$$;
CREATE TABLE redrive.migrations (
    version    integer     UNIQUE,
    name       text        NOT NULL PRIMARY KEY,
    checksum   text        NOT NULL,
    breaking   boolean     NOT NULL DEFAULT false,
    library    text,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    applied_by text        NOT NULL DEFAULT session_user
)";

/// Continues as the owner of the schema, so that all objects belong to one role: functions with the rights of
/// their owner would have those of a superuser who migrates, and the owner could not replace them. The owner is who
/// created the tables, or the schema before them.
const AS_OWNER: &str = "\
DO $$
DECLARE
    owner oid;
BEGIN
    SELECT coalesce(c.relowner, n.nspowner) INTO owner
    FROM pg_namespace n
    LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = 'migrations'
    WHERE n.nspname = 'redrive';
    IF NOT FOUND OR pg_get_userbyid(owner) = current_user THEN
        RETURN;
    ELSIF pg_has_role(session_user, owner, 'MEMBER') THEN
        PERFORM set_config('role', pg_get_userbyid(owner), true);
    ELSE
        RAISE EXCEPTION 'redrive: the schema redrive belongs to the role %, and % is not a member of it',
            pg_get_userbyid(owner), session_user
            USING ERRCODE = 'insufficient_privilege', HINT = 'migrate as its owner';
    END IF;
END
$$";

/// PUBLIC has no privileges: it would have those of each new function, and what ALTER DEFAULT PRIVILEGES says. A
/// relation without any is left as it is, because a REVOKE writes its entry of `pg_class`, as a worker that truncates
/// it does. The search path of the caller would say what the names in a function mean, unless its body is parsed already.
/// No function compiles its statements, and one without sequential scans has no bitmap scans either; see the settings of
/// a worker. A role with a profession gets what is new.
const SEAL: &str = "\
REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM PUBLIC;
DO $$
DECLARE
    command text;
BEGIN
    FOR command IN
        SELECT format('REVOKE ALL ON %s %s FROM PUBLIC', CASE c.relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END,
                      c.oid::regclass)
        FROM pg_class c
        WHERE c.relnamespace = 'redrive'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'm', 'S', 'f')
            AND pg_has_role(c.relowner, 'USAGE') AND (
                EXISTS (SELECT FROM aclexplode(c.relacl) a WHERE a.grantee = 0)
                OR EXISTS (
                    SELECT FROM pg_attribute t, aclexplode(t.attacl) a WHERE t.attrelid = c.oid AND a.grantee = 0))
        UNION ALL
        SELECT format('ALTER FUNCTION %s SET search_path = pg_catalog, pg_temp SET jit = off %s', p.oid::regprocedure,
                      CASE WHEN 'enable_seqscan=off' = ANY (p.proconfig) THEN 'SET enable_bitmapscan = off' END)
        FROM pg_proc p
        WHERE p.pronamespace = 'redrive'::regnamespace AND p.prokind = 'f' AND p.prosqlbody IS NULL
            AND pg_has_role(p.proowner, 'USAGE')
    LOOP
        EXECUTE command;
    END LOOP;
    PERFORM redrive.grant_role(r.rolname, VARIADIC array_agg(t.attname::text))
    FROM pg_attribute t
    CROSS JOIN LATERAL aclexplode(t.attacl) a
    JOIN pg_roles r ON r.oid = a.grantee
    WHERE t.attrelid = 'redrive.professions'::regclass
    GROUP BY r.rolname;
END
$$";

/// The version of this library.
const LIBRARY: &str = env!("CARGO_PKG_VERSION");

/// Whether the ledger is there, and not another table of this name.
const LEDGER_IS_THERE: &str = "\
SELECT count(*) = 3
FROM pg_catalog.pg_attribute a
JOIN pg_catalog.pg_class c ON c.oid = a.attrelid
JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'redrive' AND c.relname = 'migrations' AND a.attname IN ('version', 'checksum', 'breaking')";

/// Takes the advisory lock of migrators, an arbitrary number that only redrive uses.
const LOCK: &str = "SELECT pg_advisory_xact_lock(8241006119173)";

impl Database {
    /// Applies the missing migrations and the changed functions, views and triggers, and returns their names in order,
    /// such as `0002_jobs` or `functions/enqueue`.
    ///
    /// Several processes can migrate concurrently. Everything is one transaction, and belongs to the owner of the
    /// schema: a superuser and a member of the owner act as the owner. A program never replaces the
    /// functions of a newer version. It fails if it cannot get a lock within 5 seconds, so that it does not block other sessions, and
    /// can be repeated. There is no other time limit while the server responds.
    ///
    /// # Errors
    /// *Invalid* when an applied migration differs from the one in this library, or an earlier one
    /// is missing; *unavailable* when the server does not respond, on a second connection either,
    /// within the call timeout; otherwise when a newer version of redrive made a breaking change, or
    /// the server refuses. An error changes nothing, unless the answer to the commit was lost.
    pub fn migrate(&self) -> Result<Vec<&'static str>> {
        self.call_while_alive("migrate the schema", apply)
    }

    /// Checks that the schema has every migration and function of this library or of a newer one, without changing
    /// it, and that this role can use it; see [`check_session`](Database::check_session).
    ///
    /// # Errors
    /// *Migration required* when it is missing or older; *invalid* when an applied migration differs
    /// from the one in this library, or an earlier one is missing; otherwise when a newer version of
    /// redrive made a breaking change, or this role cannot use it.
    pub fn check_schema(&self) -> Result<()> {
        self.call("check the schema", |session| {
            match &to_apply(&ledger(session)?)?[..] {
                [] => refuse_obstacles(session),
                [first, others @ ..] => Err(Error::migration_required(format!(
                    "the schema `redrive` lacks `{}` of this version and {} more; run `redrive migrate`",
                    first.name,
                    others.len()
                ))),
            }
        })
    }
}

row! {
    /// A row of the ledger: an applied migration, or a definition.
    struct Entry {
        version: Option<i32>,
        name: String,
        checksum: String,
        breaking: bool,
        library: Option<String>,
    }
}

fn ledger(session: &mut Session) -> Result<Vec<Entry>> {
    match session.query("read the schema's version", &sql::SCHEMA_VERSION, &[]) {
        Err(error) if error.sql_state() == Some(&SqlState::UNDEFINED_TABLE) => Ok(Vec::new()),
        rows => read_all(&rows?),
    }
}

/// Returns whether a newer library changed the schema.
pub(crate) fn is_newer(session: &mut Session) -> Result<bool> {
    Ok(is_of_newer(&ledger(session)?))
}

/// Returns whether a newer library applied some of it. Its functions must stay, even if this one has others.
fn is_of_newer(ledger: &[Entry]) -> bool {
    let is_later = |library: &str| order(library) > order(LIBRARY);
    ledger
        .iter()
        .any(|entry| entry.version > Some(last()) || entry.library.as_deref().is_some_and(is_later))
}

/// Returns the library's definitions that the schema has in another version or not at all. Those of a newer library
/// are not compared.
fn changed(ledger: &[Entry]) -> Vec<&'static File> {
    let is_applied = |ours: &&File| {
        let is_ours = |one: &Entry| one.name == ours.name && one.checksum == ours.checksum();
        ledger.iter().any(is_ours)
    };
    let changed = DEFINITIONS.iter().filter(|ours| !is_applied(ours));
    match is_of_newer(ledger) {
        true => Vec::new(),
        false => changed.collect(),
    }
}

/// Returns the order of the version of a library. A pre-release is older than its release.
fn order(version: &str) -> (i64, bool) {
    (release(version), !version.contains('-'))
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
pub(crate) fn schema_version(rows: &[Row]) -> Result<SchemaVersion> {
    let ledger: Vec<Entry> = read_all(rows)?;
    Ok(SchemaVersion {
        version: ledger
            .iter()
            .filter_map(|entry| entry.version)
            .max()
            .unwrap_or(0),
        is_known: examine(&ledger).is_ok() && missing(&ledger).is_empty(),
    })
}

/// Returns what must be applied, in order, unless the schema is none that this library can migrate.
fn to_apply(ledger: &[Entry]) -> Result<Vec<&'static File>> {
    examine(ledger)?;
    let mut files = missing(ledger);
    match files.is_empty() {
        true => files = changed(ledger),
        // A migration may drop what is defined again.
        false => files.extend(DEFINITIONS),
    }
    Ok(files)
}

/// Returns the library's migrations that were not applied.
fn missing(ledger: &[Entry]) -> Vec<&'static File> {
    let is_applied = |ours: &&File| ledger.iter().any(|entry| entry.name == ours.name);
    MIGRATIONS.iter().filter(|ours| !is_applied(ours)).collect()
}

/// Returns the number of the last migration.
fn last() -> i32 {
    MIGRATIONS.last().and_then(File::version).unwrap_or(0)
}

/// Compares the ledger with the migrations of this library.
fn examine(ledger: &[Entry]) -> Result<()> {
    for entry in ledger {
        match MIGRATIONS.iter().find(|ours| ours.name == entry.name) {
            Some(ours) if ours.checksum() != entry.checksum => {
                return Err(Error::invalid(format!(
                    "migration `{}` was applied with a different text; a released migration never changes",
                    entry.name
                )));
            }
            None if entry.breaking => {
                return Err(Error::refused(format!(
                    "the schema `redrive` has the breaking migration `{}` of a newer version; upgrade this program",
                    entry.name
                )));
            }
            Some(_) | None => {}
        }
    }
    // Later migrations build on the missing one, so it cannot be applied after them.
    let last = ledger.iter().max_by_key(|entry| entry.version);
    if let Some((last, first)) = last.zip(missing(ledger).first())
        && first.version() < last.version
    {
        return Err(Error::invalid(format!(
            "the schema `redrive` lacks the migration `{}` but has the later `{}`; \
             migrations must be applied in order, so restore a complete schema",
            first.name, last.name
        )));
    }
    Ok(())
}

/// Applies what is missing or changed; the lock makes check and change atomic.
fn apply(session: &mut Session) -> Result<Vec<&'static str>> {
    const DOING: &str = "migrate the schema `redrive`";
    let refused = |error| Error::from_setup(DOING, error);
    let begin = format!("{SETTINGS}; {LOCK}; SET LOCAL lock_timeout = '5s'");
    session.read_committed(DOING, "", |session| {
        let client = session.client();
        // Here, where no error says to migrate. After waiting for the lock, it reads what the previous migrator committed.
        client.batch_execute(&begin).map_err(refused)?;
        let ledger = client.query_typed_one(LEDGER_IS_THERE, &[]);
        if !ledger.map_err(refused)?.get::<_, bool>(0) {
            let create = format!("{AS_OWNER}; {CREATE_LEDGER}");
            client.batch_execute(&create).map_err(refused)?;
        }
        // Checked under the lock, because a migrator of another version may run too. Newer migrations
        // must not be breaking.
        let rows = client
            .query_typed(sql::SCHEMA_VERSION.text, &[])
            .map_err(refused)?;
        let files = to_apply(&read_all::<Entry>(&rows)?)?;
        if !files.is_empty() {
            client.batch_execute(AS_OWNER).map_err(refused)?;
            for file in &files {
                let applied = client.batch_execute(&file.script());
                let doing = format!("apply `{}` to the schema", file.name);
                applied.map_err(|error| Error::from_setup(&doing, error))?;
            }
            client.batch_execute(SEAL).map_err(refused)?;
        }
        Ok(files.iter().map(|file| file.name).collect())
    })
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
