//! A reader while the database is locked, slow or away.

use prometheus::TextEncoder;
use prometheus::core::Collector as _;
use redrive::Pooler;
use redrive::metrics::{MetricsCollector, Reader, Source};
use redrive::postgres::Error;
use redrive::r2d2::{CustomizeConnection, Pool};
use redrive::r2d2_postgres::PostgresConnectionManager;
use redrive_tests::prelude::*;

use super::success;

/// The time for a reading.
const BUDGET: Duration = Duration::from_millis(500);

/// Opens a connection only once the budget of the call that needs it is over.
#[derive(Debug)]
struct Late;

impl CustomizeConnection<Client, Error> for Late {
    fn on_acquire(&self, _: &mut Client) -> Result<(), Error> {
        let begin = Instant::now();
        wait_until("the budget to be over", SOON, || begin.elapsed() > BUDGET);
        Ok(())
    }
}

#[test]
fn the_wait_for_a_connection_is_part_of_the_budget() {
    let test = TestDatabase::migrated();
    let create = "CREATE OR REPLACE FUNCTION redrive.metric_totals()
                  RETURNS TABLE (metric text, labels text[], numbers double precision[])
                  LANGUAGE plpgsql STABLE AS 'BEGIN PERFORM pg_sleep(0.05); END'";
    test.sql(create);
    let manager = PostgresConnectionManager::new(test.url().parse().unwrap(), NoTls);
    let pool = Pool::<PostgresConnectionManager<NoTls>>::builder().max_size(1);
    let pool = pool.min_idle(Some(0)).connection_customizer(Box::new(Late));
    let db = Database::from_pool(pool.build_unchecked(manager), Pooler::Transaction);
    let reader = Reader::new("1");
    let (reader, reading) = reader.read_within(&db, BUDGET, SOON);
    assert!(!success(&reading, Source::Totals), "there is no time left");
    let (_, reading) = reader.read_within(&db, SOON, SOON);
    assert!(success(&reading, Source::Totals), "{:?}", reading.failures);
}

#[test]
fn a_source_that_is_locked_keeps_its_last_values_and_the_others_are_read() {
    let (test, queue, mut client) = TestDatabase::with_session();
    queue.enqueue(&Order { number: 1 }).unwrap();
    let mut reader = Reader::new("1");
    let reading = read(&mut reader, &mut client);
    says(&reading, "queue_jobs{orders,ready}", 1.0);
    let before = series(&reading, "collector_last_success_timestamp_seconds{queues}");

    let mut locker = test.begins("LOCK TABLE redrive.jobs IN ACCESS EXCLUSIVE MODE");
    let reading = reader.read(&mut client, Duration::from_secs(20));
    assert!(reading.is_connected && reading.is_ready);
    says(&reading, "up", 1.0);
    assert!(!success(&reading, Source::Queues));
    assert!(success(&reading, Source::Server));
    says(&reading, "queue_jobs{orders,ready}", 1.0);
    let after = series(&reading, "collector_last_success_timestamp_seconds{queues}");
    assert_eq!(before, after, "its age shows");
    let failed: Vec<_> = reading.failures.iter().map(|(source, _)| *source).collect();
    assert!(failed.contains(&Some(Source::Queues)), "{failed:?}");

    locker.sql("ROLLBACK");
    let reading = read(&mut reader, &mut client);
    assert!(success(&reading, Source::Queues), "{:?}", reading.failures);
}

#[test]
fn a_lost_connection_is_reported_and_keeps_the_last_values() {
    let test = TestDatabase::migrated();
    test.queue("orders").enqueue(&Order { number: 1 }).unwrap();
    let (mut client, mut other) = (test.client(), test.client());
    let mut reader = Reader::new("1");
    read(&mut reader, &mut client);
    let pid: i32 = client.ask("SELECT pg_backend_pid()", &[]);
    other.change("SELECT pg_terminate_backend($1, 20000)", &[&pid]);
    let reading = read(&mut reader, &mut client);
    assert!(!reading.is_connected && !reading.is_ready);
    for reading in [reading, reader.unreachable()] {
        says(&reading, "up", 0.0);
        says(&reading, "down{unreachable}", 1.0);
        says(&reading, "queue_jobs{orders,ready}", 1.0);
        says(&reading, "collector_success{queues}", 0.0);
    }
    let reading = read(&mut reader, &mut other);
    assert!(reading.is_ready);
}

#[test]
fn a_lock_is_not_taken_for_a_silent_server() {
    let (test, mut client) = TestDatabase::with_client();
    let mut migration = test.begins("LOCK TABLE redrive.migrations");
    let mut reader = Reader::new("1");
    let reading = read(&mut reader, &mut client);
    says(&reading, "up", 0.0);
    says(&reading, "down{collector}", 1.0);
    says(&reading, "down{unreachable}", 0.0);
    assert!(reading.is_connected, "{:?}", reading.failures);
    migration.sql("ROLLBACK");
    let reading = reader.read(&mut client, Duration::MAX);
    says(&reading, "up", 1.0);
    says(&reading, "down{collector}", 0.0);
}

#[test]
fn a_collector_returns_its_last_values_while_the_database_rejects_connections() {
    let test = TestDatabase::migrated();
    test.queue("orders").enqueue(&Order { number: 1 }).unwrap();
    let db = eventually("a connection", || {
        let db = Database::builder(test.url()).connections(1);
        db.connect_timeout(Duration::from_millis(200)).open()
    });
    let collector = MetricsCollector::new(&db).deadline(Duration::from_secs(20));
    let ready = r#"redrive_queue_jobs{queue="orders",state="ready"} 1"#;
    let exposition = |collector: &MetricsCollector| {
        let text = TextEncoder::new().encode_to_string(&collector.collect());
        text.unwrap()
    };
    assert!(exposition(&collector).contains(ready));
    // The database rejects new connections.
    let mut server = Client::connect(&server_url(), NoTls).unwrap();
    let shut = |how: &str| format!("ALTER DATABASE {} ALLOW_CONNECTIONS {how}", test.name());
    server.sql(&shut("false"));
    let end = "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE datname = $1";
    server.change(end, &[&test.name()]);
    let text = exposition(&collector);
    has(&text, "\nredrive_up 0\n");
    has(&text, ready);
    server.sql(&shut("true"));
    // The pool waits between its attempts to connect, for longer each time.
    wait_until("the collector to read again", SOON, || {
        exposition(&collector).contains("\nredrive_up 1\n")
    });
}
