//! Values: the buckets and slots of the counters.

use redrive::metrics::OTHER;
use redrive_tests::prelude::*;

/// Returns the counts of a histogram by bucket, and the sum.
fn counts(client: &mut Client, metric: &str, labels: &[&str]) -> (Vec<i64>, f64) {
    let asked = "SELECT trim_array(numbers, 1)::bigint[], numbers[cardinality(numbers)]
                 FROM redrive.metric_totals() WHERE metric = $1 AND labels = $2";
    let row = client.query_opt(asked, &[&metric, &labels]).unwrap();
    row.map_or_else(Default::default, |row| (row.get(0), row.get(1)))
}

#[test]
fn a_value_equal_to_a_bucket_bound_is_in_that_bucket() {
    let (_test, mut client) = TestDatabase::with_client();
    // The triggers copy the bounds: attempts at each bound and one more.
    let insert = "INSERT INTO redrive.dead_letters
                      (queue, kind, cause, error_class, error_message, payload, attempts, enqueued_at)
                  SELECT 'orders', 'order', 'exhausted', 'C', 'm', '{}', n, now()
                  FROM unnest('{0,1,2,3,25,26,1000}'::integer[]) n";
    client.sql(insert);
    let at_death = "redrive_job_attempts_at_dead_letter";
    let (at_death, _) = counts(&mut client, at_death, &["orders"]);
    assert_eq!(at_death, [2, 1, 1, 0, 0, 0, 0, 0, 0, 1, 2]);
    // The age of letters: a second less than each bound, and a minute more.
    for (ago, attempts) in [("59 seconds", 0), ("601 seconds", 2), ("31 days", 25)] {
        client.sql(&format!(
            "UPDATE redrive.dead_letters SET died_at = now() - interval '{ago}' WHERE attempts = {attempts};
             UPDATE redrive.dead_letters SET state = 'discarded', discard_reason = 'x' WHERE attempts = {attempts}"
        ));
    }
    let stayed = "redrive_dlq_residence_seconds";
    let (stayed, _) = counts(&mut client, stayed, &["orders", "discarded"]);
    assert_eq!(stayed, [1, 0, 1, 0, 0, 0, 0, 0, 0, 1]);
}

#[test]
fn a_clock_that_went_back_lowers_no_sum() {
    let (_test, mut client) = TestDatabase::with_client();
    // Both ways to count: all letters get one state, and each gets another.
    let insert = "INSERT INTO redrive.dead_letters \
         (queue, kind, cause, error_class, error_message, payload, enqueued_at, died_at) \
         SELECT 'orders', 'order', 'rejected', 'C', 'm', '{}', now(), now() + interval '1 hour' FROM generate_series(1, 4); \
         UPDATE redrive.dead_letters SET state = 'discarded', discard_reason = 'x' WHERE id % 2 = 0; \
         UPDATE redrive.dead_letters SET state = CASE id % 4 WHEN 1 THEN 'discarded' ELSE 'recovered' END, \
         discard_reason = CASE id % 4 WHEN 1 THEN 'x' END \
         WHERE id % 2 = 1";
    client.sql(insert);
    let stayed = "redrive_dlq_residence_seconds";
    let (counts, sum) = counts(&mut client, stayed, &["orders", "discarded"]);
    assert!(counts[0] == 3 && sum >= 0.0, "{counts:?} {sum}");
}

#[test]
fn histograms_of_a_worker_have_sums() {
    let (test, queue) = TestDatabase::with_orders();
    put(&queue, new_order(1).delay(Duration::from_millis(1)));
    work_off(&queue, |job: &Job<Order>| match job.attempt() {
        1 | 2 => Err(Failure::retry("later").after(Duration::from_millis(1))),
        _ => Ok(()),
    });
    let mut client = test.client();
    let (attempts, sum) = counts(&mut client, "redrive_job_attempts_to_success", &["orders"]);
    assert_eq!(attempts[..4], [0, 0, 1, 0]);
    assert!((sum - 3.0).abs() < 1e-9);
    let (delays, sum) = counts(&mut client, "redrive_job_retry_delay_seconds", &["orders"]);
    assert_eq!(delays[0], 2);
    assert!((sum - 0.002).abs() < 1e-9);
    let (_, sum) = counts(&mut client, "redrive_job_end_to_end_seconds", &["orders"]);
    assert!(sum > 0.002);
}

#[test]
fn a_handler_in_a_transaction_counts_its_run_and_the_life_of_its_job() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    queue.enqueue(&Order { number: 1 }).unwrap();
    let age = "UPDATE redrive.jobs SET enqueued_at = enqueued_at - interval '2 hours',
               meta.ready_at = enqueued_at - interval '1 hour'";
    client.sql(age);
    let worker = worker(&queue).handle(|_: &Job<Order>, _: &mut Transaction<'_>| Ok(()));
    let worker = worker.started();
    finish(&queue, worker);
    let hours = "SELECT floor(numbers[cardinality(numbers)] / 3600)::bigint
                 FROM redrive.metric_totals() WHERE metric = $1";
    let hours = |of: &str| -> i64 { client.ask(hours, &[&format!("redrive_job_{of}_seconds")]) };
    let sums = ["end_to_end", "queue_wait", "run"].map(hours);
    assert_eq!(sums, [2, 1, 0]);
}

#[test]
fn kinds_classes_and_sources_beyond_the_limit_are_combined() {
    let (test, mut client) = TestDatabase::with_client();
    // As captures do, a thousand per statement; the first are folded separately.
    let mut count = |from: i64, to: i64| {
        client.change("INSERT INTO redrive.metric_deltas (segment, queue, keys, labels, counts)
                 SELECT 0, 'orders', array_agg(w), array_agg(l || to_char(n, 'FM00000')), array_agg(1)
                 FROM generate_series($1::bigint, $2) n,
                      (VALUES ('dead_kind', 'kind-'), ('dead_class', 'class-'), ('captured', 'source-')) x (w, l)", &[&from, &to]);
    };
    count(0, 14);
    fold(&mut test.client());
    count(15, 999);
    for thousand in 1..10 {
        count(thousand * 1000, thousand * 1000 + 999);
    }
    let before = published(&mut client);
    fold(&mut client);
    let series = published(&mut client);
    for (metric, name) in [
        ("redrive_jobs_dead_lettered_by_kind_total{", "kind-00007"),
        ("redrive_dlq_errors_total{", "class-00007"),
        ("redrive_dlq_captured_total{", "source-00007"),
    ] {
        let of = series.iter().filter(|(name, _)| name.starts_with(metric));
        let of: Vec<i64> = of.map(|(_, value)| *value).collect();
        assert_eq!((of.len(), of.iter().sum()), (20 + 1, 10_000), "{metric}");
        assert_eq!(series[&format!("{metric}orders,{name}}}")], 1);
        assert_eq!(series[&format!("{metric}orders,{OTHER}}}")], 10_000 - 20);
    }
    // Unfolded counts are combined by the same rule.
    assert_eq!(before, series);
}

#[test]
fn queues_beyond_the_limit_are_combined_and_checked_together() {
    let (test, mut client) = TestDatabase::with_client();
    let call = "SELECT redrive.enqueue('queue-' || lpad(n::text, 3, '0'), 'order', '{}')
                FROM generate_series(1, 130) n";
    client.sql(call);
    for folded in [false, true] {
        if folded {
            fold(&mut client);
        }
        let series = published(&mut client);
        let queues = series
            .keys()
            .filter(|name| name.starts_with("redrive_jobs_enqueued_total"));
        assert_eq!(queues.count(), 100 + 1);
        assert_eq!(series["redrive_queue_live_jobs{queue-100}"], 1);
        assert_eq!(series[&format!("redrive_queue_live_jobs{{{OTHER}}}")], 30);
        no_drift(&test.open());
    }
    // The counts of such a queue are combined, and so are its kinds.
    letters(&test.queue("queue-131"), 2);
    letters(&test.queue(OTHER), 1);
    no_drift(&test.open());
    fold(&mut client);
    no_drift(&test.open());
    let series = published(&mut client);
    assert_eq!(series[&format!("redrive_dlq_letters{{{OTHER},open}}")], 3);
    let of_kind = format!("redrive_jobs_dead_lettered_by_kind_total{{{OTHER},{OTHER}}}");
    assert_eq!(series[&of_kind], 3);
    assert_eq!(series["redrive_series_folded{queue}"], 1);
}
