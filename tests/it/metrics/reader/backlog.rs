//! Counters that no worker folds.

use redrive::metrics::Reader;
use redrive_tests::prelude::*;

const UNFOLDED: &str = "SELECT count(*) FROM redrive.metric_deltas";

#[test]
fn counters_are_exact_and_never_fall_with_any_backlog_and_no_worker() {
    let (_test, mut client) = TestDatabase::with_client();
    let mut reader = Reader::new("test");
    let mut written = 0;
    // At the second one, the reader starts to fold.
    for rows in [7_000, 60_000, 100] {
        client.change("INSERT INTO redrive.metric_deltas (queue, keys, labels, counts)
                 SELECT 'orders', '{letters,captured,enqueued}', '{open,topic,NULL}', '{1,1,2}' FROM generate_series(1, $1)", &[&rows]);
        written += rows;
        let reading = reader.read(&mut client, Duration::from_mins(1));
        assert!(reading.failures.is_empty(), "{:?}", reading.failures);
        for (name, labels, count) in [
            ("redrive_dlq_letters", &["orders", "open"][..], written),
            ("redrive_dlq_captured_total", &["orders", "topic"], written),
            ("redrive_jobs_enqueued_total", &["orders"], 2 * written),
            ("redrive_queue_live_jobs", &["orders"], 2 * written),
            ("redrive_totals_regressions_total", &[], 0),
        ] {
            let found = number(&reading.samples, name, labels);
            assert_eq!(found, Some(f64::from(count)), "{name} of {written}");
        }
    }
    assert!(scalar(&mut client, UNFOLDED) <= 100, "the reader folded");
}
