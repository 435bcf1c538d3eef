//! The delay between attempts to connect. Pure.

use std::time::Duration;

const MIN_DELAY: Duration = Duration::from_millis(500);
const MAX_DELAY: Duration = Duration::from_secs(30);

/// Returns the delay after this many failures in a row.
///
/// It starts at half a second and doubles up to 30 seconds. `jitter`, from 0 to 1, picks a value
/// between half of the delay and all of it.
pub(super) fn backoff(failures: u32, jitter: f64) -> Duration {
    let factor = 2_u32.saturating_pow(failures.saturating_sub(1));
    MIN_DELAY
        .saturating_mul(factor)
        .min(MAX_DELAY)
        .mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_double_up_to_half_a_minute() {
        let millis = |failures, jitter| backoff(failures, jitter).as_millis();
        assert_eq!([0, 1, 2, 3].map(|n| millis(n, 1.0)), [500, 500, 1000, 2000]);
        assert_eq!([7, 8, u32::MAX].map(|n| millis(n, 1.0)), [30_000; 3]);
        assert_eq!((millis(3, 0.0), millis(3, 0.5)), (1000, 1500));
    }
}
