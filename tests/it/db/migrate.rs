//! Migrations: many migrators at once, other versions, and the script for teams with a tool.

use std::collections::BTreeSet;
use std::sync::{Arc, Barrier};
use std::thread;

use redrive::{Job, Operator, Queue};
use redrive_tests::{Order, TestDatabase, drained, stop, worker};

/// The version of the newest migration.
const LAST: i32 = 57;

/// The versions that a database has had.
fn versions(test: &TestDatabase) -> Vec<i32> {
    let rows = test.client().query(
        "SELECT version FROM redrive.migrations ORDER BY version",
        &[],
    );
    rows.unwrap().iter().map(|row| row.get(0)).collect()
}

#[test]
fn eight_concurrent_migrators_apply_each_migration_once() {
    migrate_at_once(&TestDatabase::empty());
}

#[test]
fn concurrent_migrators_work_at_every_isolation_level() {
    let test = TestDatabase::empty();
    let stricter = format!(
        "ALTER DATABASE {} SET default_transaction_isolation = 'repeatable read'",
        test.name()
    );
    test.client().batch_execute(&stricter).unwrap();
    migrate_at_once(&test);
}

fn migrate_at_once(test: &TestDatabase) {
    let start = Arc::new(Barrier::new(8));
    let migrators: Vec<_> = (0..8)
        .map(|_| {
            let (db, start) = (test.open(), Arc::clone(&start));
            thread::spawn(move || {
                start.wait();
                db.migrate().expect("migrate")
            })
        })
        .collect();
    let mut applied: Vec<i32> = migrators
        .into_iter()
        .flat_map(|migrator| migrator.join().expect("a migrator"))
        .map(|applied| applied.version)
        .collect();
    applied.sort_unstable();
    let versions = versions(test);
    assert_eq!(applied, versions, "each by one of them");
    assert_eq!(versions, (1..=LAST).collect::<Vec<i32>>());
    test.open().check_schema().unwrap();
    assert_eq!(
        test.open().migrate().unwrap(),
        [],
        "a second time does nothing"
    );
}

#[test]
fn applied_migrations_are_reported_in_order() {
    let test = TestDatabase::empty();
    let applied = test.open().migrate().unwrap();
    assert!(applied.is_sorted_by_key(|applied| applied.version));
    assert_eq!(applied[0].name, "0001_types");
    assert_eq!(applied.len(), versions(&test).len());
}

#[test]
fn a_missing_schema_error_says_to_migrate() {
    let test = TestDatabase::empty();
    let error = test.open().check_schema().expect_err("nothing is there");
    assert!(error.is_migration_required(), "{error:?}");
    assert!(error.to_string().contains("redrive migrate"), "{error}");
}

/// Makes a database of an older version, with the migrations up to this one.
fn as_of(version: i32) -> TestDatabase {
    let script = redrive::migrate::print();
    let next = format!("\n-- {:04}_", version + 1);
    let (older, _) = script.split_once(&next).expect("a later migration");
    let test = TestDatabase::empty();
    let script = format!("{older}\nCOMMIT;");
    test.client().batch_execute(&script).unwrap();
    assert_eq!(versions(&test), (1..=version).collect::<Vec<i32>>());
    test
}

/// On the schema of any older version the library works or returns a clear error, and migrating
/// produces the current schema.
#[test]
fn an_older_schema_is_reported_and_upgraded() {
    let all = TestDatabase::migrated();
    let last = versions(&all).len();
    let new = catalog(&all);
    for version in [1, 2, 8, 20, 30, LAST - 1] {
        let test = as_of(version);
        let db = test.open();
        let queue = Queue::new(&db, "orders").unwrap();
        let start = worker(&queue)
            .handle(|_: &Job<Order>| Ok(()))
            .start()
            .map(drop);
        for refused in [db.check_schema(), start] {
            let error = refused.expect_err("migrations are missing");
            assert!(error.is_migration_required(), "{version}: {error:?}");
            let next = format!("{:04}_", version + 1);
            assert!(error.to_string().contains(&next), "{version}: {error}");
        }
        // An enqueue needs no check before: it is stored, or rejected with a clear error.
        let stored = match queue.enqueue(&Order { number: 1 }) {
            Ok(id) => Some(id),
            Err(error) => {
                assert!(error.is_migration_required(), "{version}: {error:?}");
                None
            }
        };
        let older = catalog(&test);
        assert!(older.len() < new.len(), "{version}: nothing was changed");

        let applied = db.migrate().unwrap();
        let applied: Vec<i32> = applied.iter().map(|applied| applied.version).collect();
        assert_eq!(applied.len() + usize::try_from(version).unwrap(), last);
        assert!(applied.is_sorted() && applied[0] == version + 1);
        db.check_schema().unwrap();
        let completed = catalog(&test);
        let differing: Vec<&String> = completed.symmetric_difference(&new).collect();
        assert!(differing.is_empty(), "{version}: {differing:#?}");

        let worker = worker(&queue)
            .handle(|_: &Job<Order>| Ok(()))
            .start()
            .unwrap();
        drained(&queue);
        let done = stop(worker).stats.done;
        assert_eq!(done, u64::from(stored.is_some()), "{version}");
    }
}

#[test]
fn a_skipped_migration_is_an_error_and_changes_nothing() {
    let test = TestDatabase::migrated();
    let db = test.open();
    test.client()
        .batch_execute(
            "DELETE FROM redrive.migrations WHERE version = 9; \
             DROP TABLE redrive.audit; DROP FUNCTION redrive.protect_audit, redrive.record_act",
        )
        .unwrap();
    let before = catalog(&test);
    let queue = Queue::new(&db, "orders").unwrap();
    let start = worker(&queue)
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .map(drop);
    for refused in [db.check_schema(), db.migrate().map(drop), start] {
        let error = refused.expect_err("a migration was left out");
        assert!(error.is_invalid(), "{error:?}");
        assert!(error.to_string().contains("0009_audit"), "{error}");
    }
    assert_eq!(before, catalog(&test));
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
        test.client().execute(later, &[&breaking]).unwrap();
        let before = catalog(&test);
        let db = test.open();
        let is_whole = versions(&test).len() == usize::try_from(LAST).unwrap() + 1;
        match db.migrate() {
            Ok(applied) => assert!(is_whole && !breaking && applied.is_empty()),
            Err(error) if breaking => assert!(error.is_schema_newer(), "{error:?}"),
            Err(error) => assert!(!is_whole && error.is_invalid(), "{error:?}"),
        }
        assert_eq!(before, catalog(&test), "breaking: {breaking}");
        assert_eq!(db.check_schema().is_ok(), is_whole && !breaking);
    }
}

#[test]
fn a_newer_schema_is_rejected_only_if_it_breaks_this_version() {
    let test = TestDatabase::migrated();
    let db = test.open();
    let mut client = test.client();
    client
        .batch_execute("INSERT INTO redrive.migrations (version, name, checksum, breaking) VALUES (900, '0900_later', 'x', false)")
        .unwrap();
    db.check_schema().unwrap();
    assert_eq!(db.migrate().unwrap(), []);
    client
        .batch_execute("UPDATE redrive.migrations SET breaking = true WHERE version = 900")
        .unwrap();
    let queue = Queue::new(&db, "orders").unwrap();
    let start = worker(&queue)
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .map(drop);
    for refused in [db.check_schema(), db.migrate().map(drop), start] {
        let error = refused.expect_err("a breaking migration");
        assert!(error.is_schema_newer(), "{error:?}");
        assert!(error.to_string().contains("0900_later"), "{error}");
    }
}

#[test]
fn a_migration_that_was_changed_is_rejected() {
    let test = TestDatabase::migrated();
    test.client()
        .batch_execute("UPDATE redrive.migrations SET checksum = 'other' WHERE version = 2")
        .unwrap();
    let db = test.open();
    for refused in [db.check_schema(), db.migrate().map(drop)] {
        let error = refused.expect_err("another text");
        assert!(error.is_invalid(), "{error:?}");
        assert!(error.to_string().contains("0002_jobs"), "{error}");
    }
}

/// Returns everything in the schema, one line per object.
fn catalog(test: &TestDatabase) -> BTreeSet<String> {
    let lines = "
        SELECT 'column ' || concat_ws(' ', table_name, ordinal_position, column_name, data_type, udt_name,
                                      column_default, is_nullable, collation_name)
        FROM information_schema.columns WHERE table_schema = 'redrive'
        UNION ALL
        SELECT 'function ' || pg_get_functiondef(p.oid) || coalesce(p.proacl::text, '')
        FROM pg_proc p WHERE p.pronamespace = 'redrive'::regnamespace
        UNION ALL
        SELECT 'index ' || indexdef FROM pg_indexes WHERE schemaname = 'redrive'
        UNION ALL
        SELECT 'constraint ' || coalesce(c.conrelid::regclass::text, c.contypid::regtype::text) || c.conname
               || pg_get_constraintdef(c.oid)
        FROM pg_constraint c WHERE c.connamespace = 'redrive'::regnamespace
        UNION ALL
        SELECT 'view ' || viewname || definition FROM pg_views WHERE schemaname = 'redrive'
        UNION ALL
        SELECT 'relation ' || concat_ws(' ', c.relname, c.relkind, c.reloptions::text, c.relreplident, c.relacl::text)
        FROM pg_class c WHERE c.relnamespace = 'redrive'::regnamespace
        UNION ALL
        SELECT 'storage ' || concat_ws(' ', c.relname, a.attname, a.attstorage, a.attcompression)
        FROM pg_attribute a JOIN pg_class c ON c.oid = a.attrelid
        WHERE c.relnamespace = 'redrive'::regnamespace AND a.attnum > 0
        UNION ALL
        SELECT 'migration ' || concat_ws(' ', version, name, checksum, breaking) FROM redrive.migrations
        UNION ALL
        SELECT 'comment ' || concat_ws(' ', objoid::regclass, objsubid, description)
        FROM pg_description d JOIN pg_class c ON c.oid = d.objoid
        WHERE c.relnamespace = 'redrive'::regnamespace";
    test.client()
        .query(lines, &[])
        .unwrap()
        .iter()
        .map(|row| row.get(0))
        .collect()
}

#[test]
fn the_printed_script_creates_the_same_schema() {
    let (migrated, printed) = (TestDatabase::empty(), TestDatabase::empty());
    migrated.open().migrate().unwrap();
    printed
        .client()
        .batch_execute(&redrive::migrate::print())
        .unwrap();
    let (ours, theirs) = (catalog(&migrated), catalog(&printed));
    assert!(ours.len() > 100, "only {} things", ours.len());
    let differing: Vec<&String> = ours.symmetric_difference(&theirs).collect();
    assert!(differing.is_empty(), "{differing:#?}");
    assert_eq!(
        printed.open().migrate().unwrap(),
        [],
        "it keeps the same ledger"
    );
    printed.open().check_schema().unwrap();
}

#[test]
fn the_printed_script_twice_changes_nothing() {
    let test = TestDatabase::migrated();
    let before = catalog(&test);
    test.client()
        .batch_execute(&redrive::migrate::print())
        .expect_err("it is there already");
    assert_eq!(before, catalog(&test));
}

#[test]
fn an_ordinary_role_that_owns_the_schema_can_do_everything() {
    let test = TestDatabase::empty();
    test.client()
        .batch_execute(&format!(
            "DO $$ BEGIN CREATE ROLE redrive_tests_owner LOGIN; \
             EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$; \
             GRANT CREATE ON DATABASE {} TO redrive_tests_owner",
            test.name()
        ))
        .unwrap();
    let (scheme, rest) = test.url().split_once("://").expect("a URL");
    let address = rest.split_once('@').map_or(rest, |(_, address)| address);
    let db = redrive::connect(&format!("{scheme}://redrive_tests_owner@{address}")).unwrap();
    db.migrate().unwrap();
    let queue = Queue::new(&db, "orders").unwrap();
    let worker = worker(&queue)
        .handle(|job: &Job<Order>| {
            if job.payload().number == 1 {
                Err(redrive::Failure::reject("no"))
            } else {
                Ok(())
            }
        })
        .start()
        .unwrap();
    queue.enqueue_many(&Order::up_to(1001)).unwrap();
    drained(&queue);
    stop(worker);
    assert_eq!(
        db.dlq()
            .redrive(&redrive::dlq::LetterFilter::new(), &Operator::default())
            .unwrap()
            .redriven
            .len(),
        1
    );
    let step: String = test
        .client()
        .query_one("SELECT redrive.turn_ring(8192, 1000)", &[])
        .unwrap()
        .get(0);
    assert!(["turned", "drained", "truncated", "nothing", "moved"].contains(&&*step));
}
