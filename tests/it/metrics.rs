//! The reader of the metrics: what it publishes, whatever the database does.

use std::time::Duration;

use postgres::Client;
use prometheus::core::Collector;
use prometheus::{Registry, TextEncoder};
use redrive::metrics::{CATALOGUE, MetricsCollector, Reader, Reading, Source, to_proto};
use redrive_tests::{Order, TestDatabase, number, read, reads};

/// Totals that a test writes itself.
const OWN_TOTALS: &str = "
    CREATE TABLE own_totals (metric text, labels text[], value float8, counts bigint[], sum float8);
    CREATE OR REPLACE FUNCTION redrive.metric_totals()
        RETURNS TABLE (metric text, labels text[], value double precision, counts bigint[], sum double precision)
        LANGUAGE sql STABLE AS 'SELECT * FROM public.own_totals'";

const ENQUEUED: &str = "redrive_jobs_enqueued_total";

fn with_own_totals(test: &TestDatabase) -> Client {
    let mut client = test.client();
    client.batch_execute(OWN_TOTALS).unwrap();
    client
}

fn count(client: &mut Client, queue: &str, value: f64) {
    client
        .execute(
            "WITH gone AS (DELETE FROM own_totals WHERE labels = ARRAY[$1::text]) \
             INSERT INTO own_totals VALUES ('redrive_jobs_enqueued_total', ARRAY[$1::text], $2)",
            &[&queue, &value],
        )
        .unwrap();
}

#[track_caller]
fn success(reading: &Reading, source: Source) -> bool {
    let labels = [source.as_str()];
    number(&reading.families, "redrive_collector_success", &labels).unwrap() > 0.0
}

#[test]
fn before_there_is_a_schema_the_reader_says_so_and_goes_on_by_itself() {
    let test = TestDatabase::empty();
    let mut client = test.client();
    let mut reader = Reader::new("1.2.3");
    let reading = read(&mut reader, &mut client);
    reads(&reading, "redrive_up", &[], 1.0);
    reads(&reading, "redrive_schema_version", &[], 0.0);
    reads(&reading, "redrive_schema_compatible", &[], 0.0);
    reads(&reading, "redrive_exporter_build_info", &["1.2.3"], 1.0);
    assert!(reading.is_connected && !reading.is_ready() && reading.failures.is_empty());
    assert!(!success(&reading, Source::Queues));

    test.open().migrate().unwrap();
    let reading = read(&mut reader, &mut client);
    assert!(
        reading.is_ready() && reading.failures.is_empty(),
        "{:?}",
        reading.failures
    );
    reads(&reading, "redrive_schema_compatible", &[], 1.0);
    for source in Source::DATABASE {
        assert!(success(&reading, source), "{source:?}");
    }
}

#[test]
fn a_newer_schema_is_known_unless_it_breaks() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    let newer = "INSERT INTO redrive.migrations (version, name, checksum, breaking) VALUES (9999, '9999_more', 'x', false)";
    client.batch_execute(newer).unwrap();
    let mut reader = Reader::new("1");
    let reading = read(&mut reader, &mut client);
    reads(&reading, "redrive_schema_version", &[], 9999.0);
    reads(&reading, "redrive_schema_compatible", &[], 1.0);

    client
        .batch_execute("UPDATE redrive.migrations SET breaking = true WHERE version = 9999")
        .unwrap();
    let reading = read(&mut reader, &mut client);
    reads(&reading, "redrive_schema_compatible", &[], 0.0);
    reads(&reading, "redrive_up", &[], 1.0);
    assert!(!reading.is_ready());

    client
        .batch_execute("DELETE FROM redrive.migrations WHERE version IN (1, 9999)")
        .unwrap();
    assert!(!read(&mut reader, &mut client).is_ready(), "one is missing");
}

#[test]
fn a_source_that_is_locked_keeps_its_last_values_and_the_others_are_read() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    queue.enqueue(&Order { number: 1 }).unwrap();
    let (mut client, mut other) = (test.client(), test.client());
    let mut reader = Reader::new("1");
    let reading = read(&mut reader, &mut client);
    reads(&reading, "redrive_queue_jobs", &["orders", "ready"], 1.0);
    let before = number(
        &reading.families,
        "redrive_collector_last_success_timestamp_seconds",
        &["queues"],
    );

    let mut lock = other.transaction().unwrap();
    lock.batch_execute("LOCK TABLE redrive.jobs IN ACCESS EXCLUSIVE MODE")
        .unwrap();
    let reading = reader.read(&mut client, Duration::from_secs(20));
    assert!(reading.is_connected && reading.is_ready());
    reads(&reading, "redrive_up", &[], 1.0);
    assert!(!success(&reading, Source::Queues));
    assert!(success(&reading, Source::Server));
    reads(&reading, "redrive_queue_jobs", &["orders", "ready"], 1.0);
    let after = number(
        &reading.families,
        "redrive_collector_last_success_timestamp_seconds",
        &["queues"],
    );
    assert_eq!(before, after, "its age shows");
    let failed: Vec<_> = reading.failures.iter().map(|(source, _)| *source).collect();
    assert!(failed.contains(&Some(Source::Queues)), "{failed:?}");

    lock.rollback().unwrap();
    let reading = read(&mut reader, &mut client);
    assert!(success(&reading, Source::Queues), "{:?}", reading.failures);
}

#[test]
fn a_source_that_is_slow_is_ended_by_the_server() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    client
        .batch_execute(
            "CREATE OR REPLACE FUNCTION redrive.metrics_queues() \
             RETURNS TABLE (metric text, labels text[], value double precision) \
             LANGUAGE sql STABLE AS 'SELECT ''x'', ''{}''::text[], 1::float8 FROM pg_sleep(3600)'",
        )
        .unwrap();
    let mut reader = Reader::new("1");
    let reading = reader.read(&mut client, Duration::from_secs(4));
    assert!(!success(&reading, Source::Queues));
    for source in [
        Source::Totals,
        Source::Letters,
        Source::Operations,
        Source::Server,
    ] {
        assert!(
            success(&reading, source),
            "{source:?}: {:?}",
            reading.failures
        );
    }
    assert!(reading.is_connected);
    let took = number(&reading.families, "redrive_scrape_duration_seconds", &[]);
    assert!(took.unwrap() < 4.0, "{took:?}");

    let reading = reader.read(&mut client, Duration::ZERO);
    assert!(
        reading.is_connected,
        "no time is no trouble of the connection"
    );
    reads(&reading, "redrive_collector_success", &["queues"], 0.0);
}

#[test]
fn a_connection_that_is_cut_is_told_and_the_values_stay() {
    let test = TestDatabase::migrated();
    test.queue("orders").enqueue(&Order { number: 1 }).unwrap();
    let (mut client, mut other) = (test.client(), test.client());
    let mut reader = Reader::new("1");
    read(&mut reader, &mut client);
    let pid: i32 = client
        .query_one("SELECT pg_backend_pid()", &[])
        .unwrap()
        .get(0);
    other
        .execute("SELECT pg_terminate_backend($1, 20000)", &[&pid])
        .unwrap();
    let reading = read(&mut reader, &mut client);
    assert!(!reading.is_connected && !reading.is_ready());
    for reading in [reading, reader.unreachable()] {
        reads(&reading, "redrive_up", &[], 0.0);
        reads(&reading, "redrive_queue_jobs", &["orders", "ready"], 1.0);
        reads(&reading, "redrive_collector_success", &["queues"], 0.0);
        // It was not their turn.
        reads(&reading, "redrive_collector_success", &["bloat"], 1.0);
    }
    let reading = read(&mut reader, &mut other);
    assert!(reading.is_ready());
}

#[test]
fn a_counter_that_fell_in_the_database_does_not_fall_here() {
    let test = TestDatabase::migrated();
    let mut client = with_own_totals(&test);
    count(&mut client, "orders", 50.0);
    let mut reader = Reader::new("1");
    reads(&read(&mut reader, &mut client), ENQUEUED, &["orders"], 50.0);
    count(&mut client, "orders", 47.0);
    for _ in 0..2 {
        let reading = read(&mut reader, &mut client);
        reads(&reading, ENQUEUED, &["orders"], 50.0);
        reads(&reading, "redrive_counter_regressions_total", &[], 1.0);
    }
    count(&mut client, "orders", 52.0);
    reads(&read(&mut reader, &mut client), ENQUEUED, &["orders"], 52.0);
}

#[test]
fn a_series_that_appears_later_is_born_at_zero() {
    let test = TestDatabase::migrated();
    let mut client = with_own_totals(&test);
    let mut reader = Reader::new("1");
    count(&mut client, "orders", 2.0);
    reads(&read(&mut reader, &mut client), ENQUEUED, &["orders"], 2.0);
    count(&mut client, "mail", 1.0);
    let reading = read(&mut reader, &mut client);
    reads(&reading, ENQUEUED, &["mail"], 0.0);
    // And all that is known of its labels with it.
    reads(
        &reading,
        "redrive_jobs_dead_lettered_total",
        &["mail", "timeout"],
        0.0,
    );
    reads(&reading, "redrive_job_end_to_end_seconds", &["mail"], 0.0);
    reads(&read(&mut reader, &mut client), ENQUEUED, &["mail"], 1.0);
}

#[test]
fn another_database_begins_anew() {
    let (test, another) = (TestDatabase::migrated(), TestDatabase::migrated());
    let mut reader = Reader::new("1");
    let mut client = with_own_totals(&test);
    count(&mut client, "orders", 50.0);
    read(&mut reader, &mut client);
    let mut client = with_own_totals(&another);
    count(&mut client, "orders", 3.0);
    let reading = read(&mut reader, &mut client);
    reads(&reading, ENQUEUED, &["orders"], 3.0);
    reads(&reading, "redrive_counter_regressions_total", &[], 0.0);
}

#[test]
fn queues_beyond_a_hundred_are_one() {
    let test = TestDatabase::migrated();
    let mut client = with_own_totals(&test);
    client
        .batch_execute(
            "INSERT INTO own_totals SELECT 'redrive_jobs_enqueued_total', ARRAY['q' || n], 1 \
             FROM generate_series(1, 130) n; \
             INSERT INTO redrive.jobs (segment, queue, kind, payload) \
             SELECT 0, 'q' || n, 'order', '{}' FROM generate_series(1, 130) n",
        )
        .unwrap();
    let mut reader = Reader::new("1");
    let reading = read(&mut reader, &mut client);
    reads(&reading, ENQUEUED, &["__other__"], 30.0);
    reads(
        &reading,
        "redrive_queue_jobs",
        &["__other__", "ready"],
        30.0,
    );
    reads(&reading, "redrive_series_folded", &["queue"], 30.0);
    let families = &reading.families;
    let enqueued = families
        .iter()
        .find(|family| family.metric.name == ENQUEUED);
    assert_eq!(enqueued.unwrap().samples.len(), 101);
}

#[test]
fn what_a_newer_schema_knows_more_is_left_out() {
    let test = TestDatabase::migrated();
    let mut client = with_own_totals(&test);
    client
        .batch_execute(
            "INSERT INTO own_totals (metric, labels, value) VALUES ('redrive_unheard_of_total', '{}', 1), \
             ('redrive_jobs_enqueued_total', '{a,b}', 1), ('redrive_queue_overdue_leases', '{theirs}', 7), \
             ('redrive_jobs_enqueued_total', '{a}', 5); \
             INSERT INTO own_totals (metric, labels, counts, sum) VALUES \
             ('redrive_job_attempts_to_success', '{a}', '{1,2}', 3)",
        )
        .unwrap();
    let reading = read(&mut Reader::new("1"), &mut client);
    reads(&reading, ENQUEUED, &["a"], 5.0);
    reads(&reading, "redrive_job_attempts_to_success", &["a"], 0.0);
    let unheard = |name| number(&reading.families, name, &[]);
    assert_eq!(unheard("redrive_unheard_of_total"), None);
    let others = number(
        &reading.families,
        "redrive_queue_overdue_leases",
        &["theirs"],
    );
    assert_eq!(others, None, "another source answers for it");
}

#[test]
fn a_program_publishes_them_in_a_registry_of_its_own() {
    let test = TestDatabase::migrated();
    test.queue("orders").enqueue(&Order { number: 1 }).unwrap();
    let db = test.open();
    let registry = Registry::new();
    registry
        .register(Box::new(MetricsCollector::new(&db)))
        .unwrap();
    registry
        .register(Box::new(MetricsCollector::new(&db)))
        .expect_err("each series would be there twice");
    let told = |registry: &Registry| {
        TextEncoder::new()
            .encode_to_string(&registry.gather())
            .unwrap()
    };
    let text = told(&registry);
    for line in [
        "redrive_up 1",
        "# TYPE redrive_jobs_enqueued_total counter",
        "# TYPE redrive_job_queue_wait_seconds histogram",
        r#"redrive_queue_jobs{queue="orders",state="ready"} 1"#,
    ] {
        assert!(
            text.lines().any(|told| told == line),
            "no `{line}` in\n{text}"
        );
    }
    // What the registry tells is what the catalogue says.
    for family in registry.gather() {
        let metric = CATALOGUE.iter().find(|metric| metric.name == family.name());
        assert_eq!(family.help(), metric.unwrap().help);
    }
}

#[test]
fn a_collector_answers_in_time_and_keeps_its_values_when_the_database_is_silent() {
    let test = TestDatabase::migrated();
    test.queue("orders").enqueue(&Order { number: 1 }).unwrap();
    let db = redrive::Database::builder(test.url())
        .connections(1)
        .connect_timeout(Duration::from_millis(200))
        .open()
        .unwrap();
    let collector = MetricsCollector::new(&db).deadline(Duration::from_secs(20));
    let ready = r#"redrive_queue_jobs{queue="orders",state="ready"} 1"#;
    let told = |collector: &MetricsCollector| {
        TextEncoder::new()
            .encode_to_string(&collector.collect())
            .unwrap()
    };
    assert!(told(&collector).contains(ready));
    // Gone, and nobody can come back.
    let mut server = Client::connect(&redrive_tests::server_url(), postgres::NoTls).unwrap();
    let shut = |how: &str| format!("ALTER DATABASE {} ALLOW_CONNECTIONS {how}", test.name());
    server.batch_execute(&shut("false")).unwrap();
    server
        .execute(
            "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity WHERE datname = $1",
            &[&test.name()],
        )
        .unwrap();
    for _ in 0..2 {
        let text = told(&collector);
        assert!(
            text.contains("\nredrive_up 0\n") && text.contains(ready),
            "{text}"
        );
    }
    server.batch_execute(&shut("true")).unwrap();
    assert!(told(&collector).contains("\nredrive_up 1\n"));
}

#[test]
fn what_is_told_is_well_formed() {
    let test = TestDatabase::migrated();
    test.queue("or\"de\\rs")
        .enqueue(&Order { number: 1 })
        .unwrap();
    let reading = read(&mut Reader::new("1"), &mut test.client());
    let text = TextEncoder::new()
        .encode_to_string(&to_proto(&reading.families))
        .unwrap();
    let mut series = std::collections::HashSet::new();
    let mut family = "";
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("# HELP ") {
            family = name.split(' ').next().unwrap();
        } else if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(name.starts_with(family), "{name} is not of {family}");
            assert!(value.parse::<f64>().unwrap().is_finite(), "{line}");
            assert!(series.insert(name.to_owned()), "{name} is there twice");
        }
    }
    assert!(
        series
            .iter()
            .any(|name| name.contains(r#"queue="or\"de\\rs""#))
    );
}
