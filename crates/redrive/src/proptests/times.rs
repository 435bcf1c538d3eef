//! Durations and numbers of the settings.

use std::time::Duration;

use proptest::prelude::*;

use super::config;
use crate::job::backoff::{Backoff, MAX_BACKOFF};
use crate::job::milliseconds::milliseconds;
use crate::job::new_job::{MAX_ATTEMPTS, MAX_DELAY, MAX_PRIORITY, NewJob};
use crate::pipeline::buckets::{self, bucket};
use crate::pipeline::claim::demand::{MAX_BATCH, demand, wanted};

/// Any time, often a short one.
fn time() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        any::<u32>().prop_map(|nanos| Duration::from_nanos(nanos.into())),
        any::<u64>().prop_map(Duration::from_nanos),
        any::<Duration>(),
    ]
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn no_delay_exceeds_its_cap(
        base in time(),
        cap in time(),
        attempt in prop_oneof![0..100_u32, any::<u32>()],
        random in proptest::num::f64::ANY,
    ) {
        let cap = cap.min(MAX_BACKOFF);
        for backoff in [
            Backoff::exponential(base),
            Backoff::linear(base),
            Backoff::fixed(base),
            Backoff::custom(move |_| base),
        ] {
            prop_assert!(backoff.max(cap).delay(attempt, random) <= cap);
        }
    }

    #[test]
    fn a_time_is_never_rounded_down(time in time()) {
        let ms = milliseconds(time);
        prop_assert!(ms == i64::MAX || Duration::from_millis(ms.unsigned_abs()) >= time);
        prop_assert!(ms == 0 || Duration::from_millis(ms.unsigned_abs() - 1) < time);
    }

    #[test]
    fn options_of_a_job_are_accepted_within_their_limits(
        delay in any::<Duration>(),
        priority in any::<i16>(),
        attempts in any::<u32>(),
        key in proptest::option::of(super::text()),
    ) {
        let mut job = NewJob::raw("k", "1").expect("a good job").delay(delay).priority(priority).max_attempts(attempts);
        if let Some(key) = &key {
            job = job.unique(key);
        }
        let good = delay <= MAX_DELAY
            && (-MAX_PRIORITY..=MAX_PRIORITY).contains(&priority)
            && (1..=MAX_ATTEMPTS).contains(&attempts)
            && key.is_none_or(|key| (1..=200).contains(&key.len()) && !key.contains('\0'));
        prop_assert_eq!(job.check("q").is_ok(), good);
    }

    #[test]
    fn a_claim_is_never_larger_than_a_batch(slots in 1..=10_000_usize, run_time in any::<Duration>(), in_hand in any::<usize>()) {
        prop_assert!(demand(wanted(slots, run_time), in_hand) <= MAX_BATCH);
    }

    #[test]
    fn every_observed_value_has_a_bucket(seconds in any::<f64>()) {
        for bounds in [buckets::SECONDS, buckets::END_TO_END, buckets::ATTEMPTS, buckets::RETRY_DELAY] {
            let place = usize::try_from(bucket(bounds, seconds)).expect("a place");
            prop_assert!(place <= bounds.len());
            if let (Some(bound), false) = (bounds.get(place), seconds.is_nan()) {
                prop_assert!(seconds <= *bound);
            }
        }
    }
}
