//! Tests of the series that a reader publishes as its values age.

use super::*;

const READY: &str = "redrive_queue_jobs";

/// A reader that read each source once, at `start`.
fn read_at(start: Instant) -> Reader {
    let mut reader = Reader::new("1");
    for state in reader.sources.values_mut() {
        state.is_good = true;
        state.good_at = 1.0;
        state.good_since = Some(start);
    }
    let ready = gauge(READY, &["orders", "ready"], 3.0);
    let queues = reader.sources.get_mut(&Source::Queues);
    queues.expect("a source").series.extend(ready);
    reader
}

fn has(reading: &Reading, name: &str) -> bool {
    let mut samples = reading.samples.iter();
    samples.any(|sample| sample.metric.name == name)
}

#[test]
fn series_of_an_overdue_source_disappear_and_return() {
    let start = Instant::now();
    let mut reader = read_at(start);
    let after = |minutes| start + Duration::from_mins(minutes);
    for failure in [None, Some(Distrust::Unreachable), Some(Distrust::Schema)] {
        let reading = reader.publish(failure, after(5));
        assert!(has(&reading, READY), "{failure:?}");
        let reading = reader.publish(failure, after(6));
        assert!(!has(&reading, READY), "{failure:?}");
        for name in [
            "redrive_jobs_enqueued_total",
            "redrive_fold_age_seconds",
            "redrive_pg_lock_waiters",
        ] {
            assert!(!has(&reading, name), "{name}, not even as 0");
        }
        for name in ["redrive_up", "redrive_down", "redrive_collector_success"] {
            assert!(has(&reading, name), "{name} describes the reader");
        }
    }
    for state in reader.sources.values_mut() {
        state.good_since = Some(after(7));
    }
    assert!(has(&reader.publish(None, after(7)), READY));
}
