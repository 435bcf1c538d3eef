//! Tests of the series that a reader publishes as its values age.

use super::*;

const READY: &str = "redrive_queue_jobs";

/// A reader that read each source once, at `start`.
fn read_at(start: Instant) -> Reader {
    let mut reader = Reader::new("1");
    for state in reader.sources.values_mut() {
        (state.good, state.failure) = (Some((start, 1.0)), None);
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
        let reading = reader.publish(failure, Vec::new(), after(5));
        assert!(has(&reading, READY), "{failure:?}");
        let reading = reader.publish(failure, Vec::new(), after(6));
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
        state.good = Some((after(7), 1.0));
    }
    assert!(has(&reader.publish(None, Vec::new(), after(7)), READY));
}

#[test]
fn each_necessary_source_must_be_current() {
    let start = Instant::now();
    let now = start + Duration::from_mins(6);
    for source in Source::DATABASE {
        for failure in [Distrust::Collector, Distrust::Privilege] {
            let mut reader = read_at(now);
            let state = reader.sources.get_mut(&source).expect("a source");
            (state.good, state.failure) = (Some((start, 1.0)), Some(failure));
            let is_necessary = ![Source::Server, Source::Tables].contains(&source);
            let found = source_state::distrust(&reader.sources, now);
            assert_eq!(found, is_necessary.then_some(failure), "{source:?}");
        }
    }
}
