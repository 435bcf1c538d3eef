//! Settings of a role, a database or a server: each is set by the library or its functions for
//! themselves, or refused by name before anything changes.

use redrive_tests::prelude::*;

use super::pooler::redrive;

/// Settings that change how SQL and PL/pgSQL is read, how values are written, and what a transaction sees.
const ODD: [&str; 15] = [
    "standard_conforming_strings = off",
    "backslash_quote = off",
    "transform_null_equals = on",
    "array_nulls = off",
    "quote_all_identifiers = on",
    "bytea_output = escape",
    "DateStyle = 'SQL, DMY'",
    "IntervalStyle = sql_standard",
    "TimeZone = 'Asia/Kolkata'",
    "extra_float_digits = -10",
    "check_function_bodies = off",
    "plpgsql.variable_conflict = use_column",
    "plpgsql.extra_errors = 'all'",
    "search_path = ''",
    "default_transaction_isolation = serializable",
];

/// Runs a job that succeeds and two that die of one failure, and redrives those. Returns the
/// failure groups.
fn lifecycle(db: &Database) -> Vec<String> {
    let queue = Queue::new(db, "orders").unwrap();
    queue.enqueue_many(&Order::up_to(3)).unwrap();
    let worker = worker(&queue).runs(|job: &Job<Order>| match job.payload().number {
        1 => Ok(()),
        number => Err(Failure::reject(format!(r"no file C:\orders\{number}.json"))
            .detail(format!("a\\b of {number}\n").repeat(100))),
    });
    drained(&queue);
    let redriven = db.redrives(&of_orders());
    assert_eq!(redriven.redriven.len(), 2);
    assert_eq!(finish(&queue, worker).stats.done, 1);
    no_drift(db);
    let groups = db.groups(&GroupFilter::new());
    groups.into_iter().map(|group| group.title).collect()
}

#[test]
fn a_job_lives_and_dies_alike_under_any_setting() {
    let plain = TestDatabase::migrated();
    let expected = lifecycle(&plain.open());
    assert_eq!(expected.len(), 1, "{expected:?}");
    let odd = TestDatabase::empty();
    for setting in ODD {
        odd.sets(setting);
    }
    odd.open().migrate().unwrap();
    assert_eq!(lifecycle(&odd.open()), expected);
    // The settings came after the migration.
    let later = TestDatabase::migrated();
    for setting in ODD {
        later.sets(setting);
    }
    assert_eq!(lifecycle(&later.open()), expected);
    for test in [odd, later] {
        assert_eq!(test.open().admin().schema_drift().unwrap(), [""; 0]);
    }
}

/// What makes statements succeed and be wrong is refused by workers and commands, with the statement
/// that helps.
#[test]
fn an_obstacle_is_refused_with_its_remedy() {
    for (obstacle, said, remedy) in [
        (
            "ALTER TABLE redrive.dead_letters ENABLE ROW LEVEL SECURITY; \
             CREATE POLICY mine ON redrive.dead_letters USING (queue = 'mine')",
            "row level security is enabled for redrive.dead_letters",
            "ALTER TABLE redrive.dead_letters DISABLE ROW LEVEL SECURITY",
        ),
        (
            "ALTER TABLE redrive.dead_letters DISABLE TRIGGER bury",
            "the trigger bury of redrive.dead_letters is disabled",
            "ALTER TABLE redrive.dead_letters ENABLE TRIGGER bury",
        ),
        (
            "DO $$ BEGIN EXECUTE format('ALTER DATABASE %I SET session_replication_role = replica', \
             current_database()); END $$",
            "`session_replication_role` is `replica`",
            "RESET session_replication_role",
        ),
    ] {
        let (test, mut client) = TestDatabase::with_client();
        let role = test.role_of("obstructed", &["worker", "enqueuer", "reader"]);
        client.sql(obstacle);
        let (db, url) = (role.open(), role.url());
        let queue = Queue::new(&db, "orders").unwrap();
        let started = worker(&queue).handle(|_: &Job<Order>| Ok(())).start();
        let mut texts = vec![started.map(drop).expect_err(obstacle).to_string()];
        for command in ["stats", "work orders --drain --exec true"] {
            let output = redrive(url, &command.split(' ').collect::<Vec<_>>());
            assert!(!output.status.success(), "{command} with {obstacle}");
            texts.push(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        for text in texts {
            has(&text, said);
            has(&text, remedy);
        }
        // The statement helps.
        let remedy = db.check_session().expect_err(obstacle).to_string();
        let remedy = remedy.split_once("; run: ").expect("a remedy").1;
        client.sql(remedy.split("; or: ").next().unwrap_or_default());
        role.open().check_session().unwrap();
    }
}

#[test]
fn idle_sessions_outlast_the_timeout_of_a_database() {
    let test = TestDatabase::migrated();
    test.sets("idle_session_timeout = '200ms'");
    let queue = Queue::new(&test.open(), "orders").unwrap();
    let worker = worker(&queue).handle(|_: &Job<Order>, _: &mut Transaction<'_>| Ok(()));
    let worker = worker.started();
    let mut server = Client::connect(&server_url(), NoTls).unwrap();
    for number in 1..=3 {
        queue.enqueue(&Order { number }).unwrap();
        drained(&queue);
        // Another session shows that the time has passed.
        let mut idle = test.client();
        let pid: i32 = idle.ask("SELECT pg_backend_pid()", &[]);
        wait_until("an idle session to end", SOON, || {
            let there = "SELECT FROM pg_stat_activity WHERE pid = $1";
            server.query_opt(there, &[&pid]).unwrap().is_none()
        });
    }
    let counts = stop(worker).stats;
    assert_eq!((counts.done, counts.retried, counts.lost), (3, 0, 0));
}

#[test]
fn a_schema_of_something_else_is_named_and_left_alone() {
    for foreign in [
        "CREATE TABLE redrive.orders (id int)",
        "CREATE TABLE redrive.migrations (id int, name text)",
        "CREATE FUNCTION redrive.f() RETURNS int LANGUAGE sql AS 'SELECT 1'",
    ] {
        let test = TestDatabase::empty();
        test.sql(&format!("CREATE SCHEMA redrive; {foreign}"));
        let error = test.open().migrate().expect_err(foreign);
        assert!(!error.is_migration_required(), "{error:?}");
        let text = format!("{error:#}");
        has(&text, "belongs to something else");
        has(&text, "ALTER SCHEMA redrive RENAME TO");
        let others = "SELECT count(*) FROM pg_class WHERE relnamespace = 'redrive'::regnamespace \
                      AND relname IN ('jobs', 'exclusive_tasks')";
        assert_eq!(scalar(&mut test.client(), others), 0, "{foreign}");
    }
}

/// A migration that fails leaves nothing of the ones before it.
#[test]
fn a_database_that_refuses_a_migration_is_left_as_it_was() {
    let test = TestDatabase::empty();
    let refusing = "CREATE FUNCTION public.refuse() RETURNS event_trigger LANGUAGE plpgsql AS $$ BEGIN \
             IF EXISTS (SELECT FROM pg_event_trigger_ddl_commands() c \
                        WHERE c.object_identity = 'redrive.schedules') \
             THEN INSERT INTO ddl_log VALUES (1); END IF; END $$; \
         CREATE EVENT TRIGGER refuse ON ddl_command_end EXECUTE FUNCTION public.refuse()";
    test.sql(refusing);
    let error = test.open().migrate().expect_err("refused");
    has(&error, "0009_schedules");
    let schemas = "SELECT count(*) FROM pg_namespace WHERE nspname = 'redrive'";
    assert_eq!(scalar(&mut test.client(), schemas), 0);
    test.sql("DROP EVENT TRIGGER refuse");
    test.open().migrate().unwrap();
}
