//! Bounds: the histograms of the catalogue, for those who sort what they observe into buckets.

use std::sync::LazyLock;

use crate::metrics::{CATALOGUE, MetricKind};

/// The bounds of the histograms that a worker observes.
pub(crate) struct Bounds {
    pub(crate) wait: &'static [f64],
    pub(crate) run: &'static [f64],
    pub(crate) end_to_end: &'static [f64],
    pub(crate) attempts: &'static [f64],
    pub(crate) retry_delay: &'static [f64],
}

/// The bounds, as the catalogue says.
pub(crate) static BOUNDS: LazyLock<Bounds> = LazyLock::new(|| Bounds {
    wait: bounds("redrive_job_queue_wait_seconds"),
    run: bounds("redrive_job_run_seconds"),
    end_to_end: bounds("redrive_job_end_to_end_seconds"),
    attempts: bounds("redrive_job_attempts_to_success"),
    retry_delay: bounds("redrive_job_retry_delay_seconds"),
});

fn bounds(name: &str) -> &'static [f64] {
    let found = CATALOGUE.iter().find(|metric| metric.name == name);
    match found.map(|metric| metric.kind) {
        Some(MetricKind::Histogram(bounds)) => bounds,
        // A test below looks for each.
        Some(MetricKind::Counter | MetricKind::Gauge) | None => &[],
    }
}

/// The bucket of a value: how many bounds are below it. A value on a bound belongs to that bound.
pub(crate) fn bucket(bounds: &[f64], observed: f64) -> i16 {
    let below = bounds.partition_point(|bound| *bound < observed);
    i16::try_from(below).unwrap_or(i16::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_histogram_that_a_worker_observes_is_in_the_catalogue() {
        let Bounds {
            wait,
            run,
            end_to_end,
            attempts,
            retry_delay,
        } = &*BOUNDS;
        for bounds in [wait, run, end_to_end, attempts, retry_delay] {
            assert!(bounds.len() > 5);
        }
    }

    #[test]
    fn a_value_on_a_bound_belongs_to_it() {
        let bounds = [1.0, 2.0, 5.0];
        for (observed, expected) in [
            (-1.0, 0),
            (0.0, 0),
            (1.0, 0),
            (1.000_001, 1),
            (2.0, 1),
            (5.0, 2),
            (5.1, 3),
            (f64::INFINITY, 3),
        ] {
            assert_eq!(bucket(&bounds, observed), expected, "{observed}");
        }
    }
}
