//! Pauses between attempts to connect: they grow, with jitter. Pure.

use std::time::Duration;

/// The first pause.
const FIRST: Duration = Duration::from_millis(500);
/// They grow up to this.
const LONGEST: Duration = Duration::from_secs(30);

/// The pause after so many failed attempts in a row: doubled each time, and then something between
/// half of it and all of it, by `jitter` from 0 to 1.
pub(super) fn pause(failures: u32, jitter: f64) -> Duration {
    let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
    FIRST
        .saturating_mul(doubled)
        .min(LONGEST)
        .mul_f64(0.5 + jitter.clamp(0.0, 1.0) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_half_a_minute_and_differ() {
        let millis = |failures, jitter| pause(failures, jitter).as_millis();
        assert_eq!([0, 1, 2, 3].map(|n| millis(n, 1.0)), [500, 500, 1000, 2000]);
        assert_eq!([7, 8, u32::MAX].map(|n| millis(n, 1.0)), [30_000; 3]);
        assert_eq!((millis(3, 0.0), millis(3, 0.5)), (1000, 1500));
    }
}
