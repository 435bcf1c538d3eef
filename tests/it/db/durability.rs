//! Durability: a server that can lose commits causes a warning, not an error.

use redrive_tests::prelude::*;

/// The setting that the server of a test lacks.
const SAFE: &str = "fsync = on";

/// The start of the warning about commits.
const COMMITS: &str = "`synchronous_commit` is `off`";

/// Returns the log of a worker from its start until it ran a job.
fn said_by_a_worker(db: &Database, logged: &Logged) -> Vec<String> {
    let before = logged.lines().len();
    let queue = Queue::new(db, "orders").unwrap();
    queue.enqueue(&Order { number: 1 }).unwrap();
    let worker = willing(&queue);
    drained(&queue);
    // The renewer asks first, and has ended when the worker has.
    stop(worker);
    logged.lines().split_off(before)
}

/// Sets a parameter of the server and waits until sessions see it.
fn set(client: &mut Client, name: &str, value: &str) {
    client.sql(&format!("ALTER SYSTEM SET {name} = {value}"));
    client.sql("SELECT pg_reload_conf()");
    wait_until("the server to read its settings", SOON, || {
        let shown: String = client.ask(&format!("SHOW {name}"), &[]);
        shown == value
    });
}

#[test]
fn each_durability_warning_is_one_line_and_a_durable_server_has_none() {
    let logged = Logged::start(LevelFilter::Warn);
    let cluster = Cluster::with(SAFE);
    cluster.start();
    cluster.migrate();
    let mut client = cluster.client();
    // A new pool each time, because an older session may have an older value.
    let connect = || redrive::connect(&cluster.url()).unwrap();
    let warnings = || connect().admin().durability_warnings().unwrap();
    assert_eq!(said_by_a_worker(&connect(), &logged), Vec::<String>::new());
    for name in ["fsync", "full_page_writes"] {
        set(&mut client, name, "off");
        let found = warnings();
        assert_eq!(found.len(), 1, "{found:?}");
        has(&found[0], format!("`{name}` is `off`"));
        set(&mut client, name, "on");
    }
    // With `local`, commits wait for the disk of the server itself.
    for (word, count) in [("off", 1), ("local", 0), ("on", 0)] {
        let commits = "ALTER DATABASE postgres SET synchronous_commit";
        client.sql(&format!("{commits} = {word}"));
        let found = warnings();
        assert_eq!(found.len(), count, "{word}: {found:?}");
        assert!(found.iter().all(|warning| warning.starts_with(COMMITS)));
    }
    client.sql("ALTER TABLE redrive.jobs_1 SET UNLOGGED; ALTER TABLE redrive.leases SET UNLOGGED");
    let found = warnings();
    assert_eq!(found.len(), 1, "{found:?}");
    let unlogged = "`UNLOGGED`; a server crash leaves them empty: `jobs_1`, `leases`";
    has(&found[0], unlogged);
    let said = said_by_a_worker(&connect(), &logged);
    let end = format!(": {}", found[0]);
    assert!(said.len() == 1 && said[0].ends_with(&end), "{said:?}");
}

#[test]
fn a_worker_starts_even_if_the_durability_check_fails() {
    let logged = Logged::start(LevelFilter::Debug);
    let test = TestDatabase::migrated();
    let role = test.role_of("unasked", &["worker", "enqueuer"]);
    // The only thing that it reads and a worker does not.
    test.sql("REVOKE SELECT ON pg_catalog.pg_namespace FROM PUBLIC");
    let db = role.open();
    let names = "SELECT nspname FROM pg_catalog.pg_namespace";
    role.client().refuses(names, &[], "42501");
    let said = said_by_a_worker(&db, &logged).join("\n");
    lacks(format!("\n{said}"), "\nWARN");
    lacks(format!("\n{said}"), "\nERROR");
    has(said, ": could not read the durability settings");
}

#[test]
fn migrate_and_the_on_call_screen_print_durability_warnings() {
    let test = TestDatabase::migrated();
    test.sets("synchronous_commit = off");
    for verb in [&["migrate"][..], &["migrate", "--check"]] {
        let err = ran(&test, verb).exits_with(0).err;
        let lines = err.lines().filter(|line| line.contains(COMMITS)).count();
        assert_eq!(lines, 1, "{verb:?}: {err}");
    }
    test.queue("orders").enqueue(&Order { number: 1 }).unwrap();
    let screen = test.run("dlq").out;
    has(&screen, "Data at risk in a crash\n");
    has(&screen, COMMITS);
    let json = test.run("dlq --json").lines();
    let warnings = json[0]["durability_warnings"].as_array().expect("a list");
    let of_commits = |warning: &Value| warning.as_str().unwrap().starts_with(COMMITS);
    assert!(warnings.iter().any(of_commits), "{warnings:?}");
}
