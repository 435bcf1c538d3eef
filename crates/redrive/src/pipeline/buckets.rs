//! Histogram buckets of the values that a worker observes. The metric catalogue publishes them.

/// Bounds of waits and run times, in seconds.
pub(crate) const SECONDS: &[f64] = &[
    0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0,
];
/// Bounds of the time from the first enqueue to success, in seconds.
pub(crate) const END_TO_END: &[f64] = &[
    0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 21600.0, 86400.0,
];
/// Bounds of numbers of attempts.
pub(crate) const ATTEMPTS: &[f64] = &[1.0, 2.0, 3.0, 4.0, 5.0, 7.0, 10.0, 15.0, 20.0, 25.0];
/// Bounds of delays before retries, in seconds.
pub(crate) const RETRY_DELAY: &[f64] = &[
    1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0, 21600.0, 86400.0,
];

/// Bounds of the run times of chores, in seconds.
pub(crate) const CHORE: &[f64] = &[0.1, 1.0, 5.0, 30.0];

/// Returns the bucket of a value: how many bounds are below it. A value on a bound belongs to it.
pub(crate) fn bucket(bounds: &[f64], observed: f64) -> i16 {
    let below = bounds.partition_point(|bound| *bound < observed);
    i16::try_from(below).unwrap_or(i16::MAX)
}
