//! Migrations: many migrators at once, other versions, and the script for teams with a tool.

use redrive::migrate::{all, in_transaction};
use redrive_tests::prelude::*;

/// The version of the newest migration.
pub(super) const LAST: i32 = 10;

/// The versions that a database has had.
fn versions(test: &TestDatabase) -> Vec<i32> {
    let versions = "SELECT version FROM redrive.migrations WHERE version > 0 ORDER BY version";
    test.client().column(versions, &[])
}

/// Starts a worker.
fn start(queue: &Queue) -> redrive::Result<()> {
    let worker = worker(queue).handle(|_: &Job<Order>| Ok(()));
    worker.start().map(drop)
}

/// Fails unless the schema is the one that the migrations of this version make.
#[track_caller]
pub(super) fn is_current(test: &TestDatabase) {
    let db = test.open();
    db.check_schema().unwrap();
    assert_eq!(db.admin().schema_drift().unwrap(), [""; 0]);
}

/// Makes a database of an older version, with the migrations up to this one.
pub(super) fn as_of(version: i32) -> TestDatabase {
    let test = TestDatabase::empty();
    let older = usize::try_from(version).unwrap();
    test.sql(&in_transaction(&all()[..older]));
    assert_eq!(versions(&test), (1..=version).collect::<Vec<i32>>());
    test
}

/// On the schema of any older version the library works or returns a clear error, and migrating
/// produces the current schema.
#[test]
fn an_older_schema_is_reported_and_upgraded() {
    for version in [1, 5, LAST - 1] {
        let test = as_of(version);
        let db = test.open();
        let queue = Queue::new(&db, "orders").unwrap();
        for refused in [db.check_schema(), start(&queue)] {
            let error = refused.expect_err("migrations are missing");
            assert!(error.is_migration_required(), "{version}: {error:?}");
            has(&error, format!("{:04}_", version + 1));
        }
        // An enqueue needs no check before: it is stored, or rejected with a clear error.
        let stored = match queue.enqueue(&Order { number: 1 }) {
            Ok(id) => Some(id),
            Err(error) => {
                assert!(error.is_migration_required(), "{version}: {error:?}");
                None
            }
        };
        assert_eq!(versions(&test), (1..=version).collect::<Vec<i32>>());
        let applied = db.migrate().unwrap();
        assert!(applied[0].starts_with(&format!("{:04}_", version + 1)));
        is_current(&test);

        let worker = willing(&queue);
        let done = finish(&queue, worker).stats.done;
        assert_eq!(done, u64::from(stored.is_some()), "{version}");
    }
}

#[test]
fn a_skipped_migration_is_an_error_and_changes_nothing() {
    let (test, db) = TestDatabase::opened();
    test.sql("DELETE FROM redrive.migrations WHERE version = 9");
    test.sql("DROP TABLE redrive.schedules CASCADE");
    let before = rows_of_schema(&test);
    let queue = Queue::new(&db, "orders").unwrap();
    for refused in [db.check_schema(), db.migrate().map(drop), start(&queue)] {
        let error = refused.expect_err("a migration was left out");
        assert!(error.is_invalid(), "{error:?}");
        has(&error, "0009_schedules");
    }
    assert_eq!(before, rows_of_schema(&test));
}

/// An older migrator leaves a newer schema unchanged, compatible or not.
#[test]
fn a_newer_schema_is_never_downgraded() {
    let later = "INSERT INTO redrive.migrations (version, name, checksum, breaking) \
                 VALUES (900, '0900_later', 'x', $1)";
    // Even if a migration that it knows is missing: it cannot know what that would undo.
    for (test, breaking) in [
        (TestDatabase::migrated(), false),
        (TestDatabase::migrated(), true),
        (as_of(LAST - 1), false),
        (as_of(LAST - 1), true),
    ] {
        test.client().change(later, &[&breaking]);
        let before = rows_of_schema(&test);
        let db = test.open();
        let is_whole = versions(&test).len() == usize::try_from(LAST).unwrap() + 1;
        match db.migrate() {
            Ok(applied) => assert!(is_whole && !breaking && applied.is_empty()),
            Err(error) if breaking => has(&error, "upgrade this program"),
            Err(error) => assert!(!is_whole && error.is_invalid(), "{error:?}"),
        }
        assert_eq!(before, rows_of_schema(&test), "breaking: {breaking}");
        assert_eq!(db.check_schema().is_ok(), is_whole && !breaking);
        if breaking && is_whole {
            let error = start(&Queue::new(&db, "orders").unwrap()).expect_err("a worker");
            has(&error, "`0900_later` of a newer version");
        }
    }
}

#[test]
fn a_migration_that_was_changed_is_rejected() {
    let test = TestDatabase::migrated();
    test.sql("UPDATE redrive.migrations SET checksum = 'other' WHERE version = 2");
    let db = test.open();
    for refused in [db.check_schema(), db.migrate().map(drop)] {
        let error = refused.expect_err("another text");
        assert!(error.is_invalid(), "{error:?}");
        has(&error, "0002_jobs");
    }
}

/// Makes a database whose functions are those of another library, with another text and other settings.
pub(super) fn with_functions_of(library: &str) -> TestDatabase {
    let test = TestDatabase::migrated();
    test.sql(&format!(
        "CREATE OR REPLACE FUNCTION redrive.wake(queue text) RETURNS boolean LANGUAGE sql AS 'SELECT false';
         ALTER FUNCTION redrive.check_pattern RESET jit;
         UPDATE redrive.migrations SET checksum = 'other', library = '{library}' WHERE name = 'functions/leases'"
    ));
    test
}

#[test]
fn changed_functions_of_an_older_version_are_required_and_replaced() {
    for library in ["0.0.9", "0.1.0-rc.2", env!("CARGO_PKG_VERSION")] {
        let test = with_functions_of(library);
        let db = test.open();
        let error = db.check_schema().expect_err("another function");
        assert!(error.is_migration_required(), "{error:?}");
        has(&error, "functions/leases");
        let applied = db.migrate().unwrap();
        assert_eq!(applied.len(), 1, "{library}: {applied:?}");
        assert_eq!(applied[0], "functions/leases");
        is_current(&test);
    }
}

/// While a new version is rolled out, programs of the old one start and migrate too.
#[test]
fn an_older_program_never_replaces_the_functions_of_a_newer_one() {
    for library in ["0.1.1", "0.2.0-rc.1", "1.0.0", "10.0.0"] {
        let test = with_functions_of(library);
        let before = rows_of_schema(&test);
        let db = test.open();
        db.check_schema().unwrap();
        assert_eq!(db.migrate().unwrap(), [""; 0], "{library}");
        assert_eq!(db.admin().schema_drift().unwrap(), [""; 0], "{library}");
        assert_eq!(before, rows_of_schema(&test), "{library}");
    }
    // A newer one may have migrated and kept this version's functions.
    let test = with_functions_of("0.0.9");
    test.sql("INSERT INTO redrive.migrations (version, name, checksum, breaking) VALUES (900, '0900_later', 'x', false)");
    let before = rows_of_schema(&test);
    test.open().check_schema().unwrap();
    assert_eq!(test.open().migrate().unwrap(), [""; 0]);
    assert_eq!(before, rows_of_schema(&test));
}

/// Its file did not change, but a migration may have dropped it to change a column below it.
#[test]
fn what_a_migration_drops_is_defined_again() {
    let test = TestDatabase::migrated();
    test.sql(&format!(
        "DELETE FROM redrive.migrations WHERE version = {LAST}"
    ));
    test.sql("DROP TABLE redrive.audit, redrive.compactions CASCADE; DROP VIEW redrive.queues");
    test.open().migrate().unwrap();
    is_current(&test);
}

/// A grant survives the replacement. A worker that truncates a segment writes the same entries of the catalog, so only
/// those change that PUBLIC has.
#[test]
fn a_replaced_function_keeps_its_grants_and_revokes_only_what_public_has() {
    let test = with_functions_of("0.0.9");
    let role = test.role("waker");
    let mut client = test.client();
    let name = role.name();
    client.sql(&format!("GRANT EXECUTE ON FUNCTION redrive.wake TO {name}"));
    // One that is new: PostgreSQL grants it to PUBLIC.
    client.sql("DROP FUNCTION redrive.is_drained");
    client.sql("GRANT SELECT ON redrive.groups, redrive.runs TO PUBLIC; GRANT UPDATE (detail) ON redrive.details TO PUBLIC; \
                GRANT USAGE ON SEQUENCE redrive.job_id TO PUBLIC");
    let entries = "SELECT array_agg(c.oid::regclass::text || ' ' || c.xmin::text ORDER BY c.oid) FROM pg_class c \
                   WHERE c.relnamespace = 'redrive'::regnamespace \
                       AND c.relname <> ALL ('{groups,runs,details,job_id}')";
    let before: Vec<String> = client.ask(entries, &[]);
    test.open().migrate().unwrap();
    let may = "SELECT has_function_privilege($1, 'redrive.wake(text)', 'EXECUTE'),
                      has_function_privilege($1, 'redrive.is_drained(text[])', 'EXECUTE')";
    assert_eq!(client.row::<(bool, bool)>(may, &[&name]), (true, false));
    assert_eq!(client.ask::<Vec<String>>(entries, &[]), before);
    let left = "SELECT count(*) FROM pg_class c, pg_attribute t, aclexplode(c.relacl || t.attacl) a \
                WHERE c.relnamespace = 'redrive'::regnamespace AND t.attrelid = c.oid AND a.grantee = 0";
    assert_eq!(client.ask::<i64>(left, &[]), 0);
}

#[test]
fn what_cannot_be_replaced_is_named_and_changes_nothing() {
    let function = "DROP FUNCTION redrive.wake; CREATE FUNCTION redrive.wake(other text) RETURNS boolean LANGUAGE sql AS 'SELECT true'";
    let view = "DROP VIEW redrive.runs; CREATE VIEW redrive.runs AS SELECT 1 AS other";
    for (other, file) in [(function, "functions/leases"), (view, "views/runs")] {
        let (test, mut client) = TestDatabase::with_client();
        client.sql(other);
        let changed = "UPDATE redrive.migrations SET checksum = 'other' WHERE name = $1 OR name = 'functions/archive'";
        client.change(changed, &[&file]);
        let before = rows_of_schema(&test);
        let error = test.open().migrate().expect_err("it cannot be replaced");
        has(&error, file);
        assert_eq!(before, rows_of_schema(&test));
    }
}

#[test]
fn what_another_role_migrates_belongs_to_the_owner() {
    let foreign = "SELECT count(*) FROM (
            SELECT c.relowner FROM pg_class c WHERE c.relnamespace = 'redrive'::regnamespace
            UNION ALL SELECT p.proowner FROM pg_proc p WHERE p.pronamespace = 'redrive'::regnamespace
            UNION ALL SELECT t.typowner FROM pg_type t WHERE t.typnamespace = 'redrive'::regnamespace
        ) o (owner) WHERE pg_get_userbyid(o.owner) <> $1";
    // How a superuser goes on: with a program, or as a tool that runs scripts.
    for (done, by_script) in [(0, false), (0, true), (1, false), (9, true)] {
        let test = TestDatabase::empty();
        let mut client = test.client();
        let owner = test.role("owner");
        let name = owner.name();
        let database = test.name();
        client.sql(&format!("GRANT CREATE ON DATABASE {database} TO {name}"));
        client.sql(&format!("CREATE SCHEMA redrive AUTHORIZATION {name}"));
        let scripts = all();
        for script in &scripts[..done] {
            owner.client().sql(&script.sql);
        }
        for script in scripts[done..].iter().filter(|_| by_script) {
            client.sql(&script.sql);
        }
        assert_eq!(test.open().migrate().unwrap().is_empty(), by_script);
        let left: i64 = client.ask(foreign, &[&name]);
        assert_eq!(left, 0, "{done} {by_script}");
        let user: String = client.ask("SELECT current_user::text", &[]);
        assert_ne!(user, name);
        assert_eq!(test.open().admin().schema_drift().unwrap(), [""; 0]);
        // The owner can go on.
        client.sql("UPDATE redrive.migrations SET checksum = 'other' WHERE version IS NULL");
        owner.open().migrate().unwrap();
    }
}

#[test]
fn a_role_that_is_no_member_of_the_owner_migrates_nothing() {
    let test = TestDatabase::empty();
    let mut client = test.client();
    let (owner, other) = (test.role("owner"), test.role("other"));
    let (to, role) = (owner.name(), other.name());
    client.sql(&format!("CREATE SCHEMA redrive AUTHORIZATION {to}"));
    client.sql(&format!("GRANT ALL ON SCHEMA redrive TO {role}"));
    let refused = || {
        let error = other.open().migrate().expect_err("the schema of another");
        has(format!("{error:#}"), "belongs to the role owner_");
    };
    refused();
    owner.open().migrate().unwrap();
    let grant = "GRANT SELECT ON redrive.migrations TO";
    client.sql(&format!("{grant} {}", other.name()));
    assert!(other.open().migrate().unwrap().is_empty());
    client.sql("UPDATE redrive.migrations SET checksum = 'other' WHERE version IS NULL");
    refused();
    owner.open().migrate().unwrap();
}

/// The server writes the definition of each, so that no text of the migrations has to be read.
#[test]
fn drift_names_every_kind_of_object_and_leaves_nothing() {
    let (test, db) = TestDatabase::opened();
    assert_eq!(db.admin().schema_drift().unwrap(), [""; 0]);
    let changes = "
        CREATE OR REPLACE VIEW redrive.paused_queues AS
            SELECT p.queue::text AS queue, p.paused_at, p.ends_at, p.person, p.reason FROM redrive.queue_pauses p;
        CREATE OR REPLACE FUNCTION redrive.shortened(value text, longest integer) RETURNS text
            LANGUAGE sql IMMUTABLE PARALLEL SAFE BEGIN ATOMIC SELECT value; END;
        ALTER TABLE redrive.audit ALTER COLUMN at SET DEFAULT now();
        ALTER TABLE redrive.schedules DROP COLUMN cron CASCADE;
        ALTER TYPE redrive.death ADD ATTRIBUTE more text;
        ALTER TYPE redrive.death DROP ATTRIBUTE cause CASCADE;
        ALTER DOMAIN redrive.run_time DROP CONSTRAINT run_time_check;
        UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'redrive.leases_for_reap'::regclass;
        DROP SEQUENCE redrive.ring_position CASCADE;
        ALTER SEQUENCE redrive.job_id CYCLE;
        ALTER TABLE redrive.jobs DETACH PARTITION redrive.jobs_3;
        ALTER TABLE redrive.retention SET UNLOGGED;
        ALTER TABLE redrive.archived_letters DISABLE TRIGGER delete_contents;
        ALTER TABLE redrive.metric_slots ALTER COLUMN name TYPE text;
        DROP TRIGGER append_only ON redrive.audit";
    test.sql(changes);
    let other = test.role("other");
    let other = other.name();
    test.sql(&format!(
        "ALTER FUNCTION redrive.table_bytes OWNER TO {other}"
    ));
    let before = rows_of_schema(&test);
    let drifts = db.admin().schema_drift().unwrap();
    for drift in [
        "view paused_queues differs from the migrations",
        "function shortened(value text, longest integer) differs from the migrations",
        "column audit.at differs from the migrations",
        "column schedules.cron is missing",
        "column death.cause is missing",
        "constraint run_time_check on run_time is missing",
        "index leases_for_reap is invalid",
        "sequence ring_position is missing",
        "sequence job_id differs from the migrations",
        "table jobs_3 differs from the migrations",
        "table retention differs from the migrations",
        "trigger delete_contents on archived_letters is disabled",
        "column metric_slots.name differs from the migrations",
        "function table_bytes(heap regclass) belongs to another role than the schema",
        "view ring is missing",
        "trigger append_only on audit is missing",
    ] {
        let is_found = drifts.iter().any(|one| one == drift);
        assert!(is_found, "{drift}: {drifts:#?}");
    }
    lacks(drifts.join("\n"), "more");
    assert_eq!(before, rows_of_schema(&test));
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'redrive%'";
    assert_eq!(scalar(&mut test.client(), schemas), 1);
}

/// Returns what changes with each write to the schema and to what it records of its migrations.
pub(super) fn rows_of_schema(test: &TestDatabase) -> Vec<String> {
    let rows = "
        SELECT concat_ws(' ', 'relation', c.oid, c.xmin) FROM pg_class c WHERE c.relnamespace = 'redrive'::regnamespace
        UNION ALL
        SELECT concat_ws(' ', 'function', p.oid, p.xmin) FROM pg_proc p WHERE p.pronamespace = 'redrive'::regnamespace
        UNION ALL
        SELECT concat_ws(' ', 'type', t.oid, t.xmin) FROM pg_type t WHERE t.typnamespace = 'redrive'::regnamespace
        UNION ALL
        SELECT concat_ws(' ', 'constraint', c.oid, c.xmin) FROM pg_constraint c
        WHERE c.connamespace = 'redrive'::regnamespace
        UNION ALL
        SELECT concat_ws(' ', 'trigger', t.oid, t.xmin) FROM pg_trigger t JOIN pg_class c ON c.oid = t.tgrelid
        WHERE c.relnamespace = 'redrive'::regnamespace
        UNION ALL
        SELECT concat_ws(' ', 'migration', m.name, m.xmin) FROM redrive.migrations m
        ORDER BY 1";
    test.client().column(rows, &[])
}
