//! Backoff: computes the delay before the next attempt from the number of the failed one.
//!
//! Pure; the caller passes the random number. All arithmetic saturates: attempt 4,000,000,000 waits
//! as long as the cap.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::job::caught::caught;

const DEFAULT_BACKOFF_BASE: Duration = Duration::from_secs(5);
const DEFAULT_BACKOFF_CAP: Duration = Duration::from_hours(1);

/// The longest delay before a retry: 30 days. Longer delays are cut to it.
pub const MAX_BACKOFF: Duration = Duration::from_hours(720);

/// The delay before the next attempt of a job.
///
/// Defaults to exponential from 5 seconds with full jitter, capped at 1 hour.
///
/// ```
/// use redrive::Backoff;
/// use std::time::Duration;
///
/// let backoff = Backoff::exponential(Duration::from_secs(2)).max(Duration::from_secs(60));
/// // Full jitter: the random number scales the delay between zero and its maximum.
/// assert_eq!(backoff.delay(1, 1.0), Duration::from_secs(2));
/// assert_eq!(backoff.delay(3, 0.5), Duration::from_secs(4));
/// assert_eq!(backoff.delay(u32::MAX, 1.0), Duration::from_secs(60));
/// ```
#[derive(Clone)]
pub struct Backoff {
    /// The delay after an attempt, without its cap and its jitter.
    full: Arc<dyn Fn(u32) -> Duration + Send + Sync>,
    max: Duration,
    has_jitter: bool,
}

impl Backoff {
    /// Returns an exponential backoff with full jitter: `random(0, min(max, base * 2^(attempt -
    /// 1)))`.
    ///
    /// Jitter spreads jobs that failed together. Capped at 1 hour by default.
    pub fn exponential(base: Duration) -> Backoff {
        let doubling = move |attempt: u32| {
            let factor = 1_u32.checked_shl(attempt.saturating_sub(1));
            base.saturating_mul(factor.unwrap_or(u32::MAX))
        };
        Backoff {
            has_jitter: true,
            ..Backoff::custom(doubling).max(DEFAULT_BACKOFF_CAP)
        }
    }

    /// Returns a linear backoff without jitter: `step * attempt`. Capped at 1 hour by default.
    pub fn linear(step: Duration) -> Backoff {
        Backoff::custom(move |attempt| step.saturating_mul(attempt)).max(DEFAULT_BACKOFF_CAP)
    }

    /// Returns a constant delay without jitter.
    pub fn fixed(delay: Duration) -> Backoff {
        Backoff::custom(move |_| delay)
    }

    /// Returns a backoff that calls a function with the number of the failed attempt, from 1. If
    /// the function panics, the default backoff applies.
    pub fn custom(delay: impl Fn(u32) -> Duration + Send + Sync + 'static) -> Backoff {
        Backoff {
            full: Arc::new(delay),
            max: MAX_BACKOFF,
            has_jitter: false,
        }
    }

    /// Sets the cap. Defaults to 1 hour for exponential and linear backoffs and to 30 days, the
    /// maximum, for the others.
    #[must_use]
    pub fn max(mut self, max: Duration) -> Backoff {
        self.max = max.min(MAX_BACKOFF);
        self
    }

    /// Returns the delay after attempt number `attempt`, from 1. `random` is in `0.0..=1.0`.
    pub fn delay(&self, attempt: u32, random: f64) -> Duration {
        let Ok(full) = caught(|| (self.full)(attempt)) else {
            log::error!("attempt={attempt}: the custom backoff panicked; using the default");
            return Backoff::default().delay(attempt, random).min(self.max);
        };
        let full = full.min(self.max);
        if !self.has_jitter {
            return full;
        }
        // `max` first: it turns a NaN into 0, which `clamp` would not.
        #[expect(clippy::manual_clamp, reason = "a NaN must not get through")]
        let share = random.max(0.0).min(1.0);
        full.mul_f64(share)
    }
}

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff::exponential(DEFAULT_BACKOFF_BASE)
    }
}

impl fmt::Debug for Backoff {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backoff")
            .field("max", &self.max)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn delays_by_shape() {
        let (doubling, linear) = (Backoff::exponential(SECOND), Backoff::linear(SECOND));
        let capped = doubling.clone().max(8 * SECOND);
        let custom = Backoff::custom(|attempt| attempt * SECOND);
        let huge = Backoff::exponential(Duration::MAX);
        let huge_steps = Backoff::linear(Duration::MAX);
        let broken = Backoff::custom(|attempt| SECOND / (attempt - 1));
        for (name, backoff, attempt, delay) in [
            ("first", &doubling, 1, SECOND),
            ("second", &doubling, 2, 2 * SECOND),
            ("capped", &capped, 10, 8 * SECOND),
            ("attempt 0 counts as 1", &doubling, 0, SECOND),
            ("linear", &linear, 3, 3 * SECOND),
            ("linear, capped", &linear, u32::MAX, 3600 * SECOND),
            ("fixed", &Backoff::fixed(7 * SECOND), 99, 7 * SECOND),
            ("custom", &custom, 4, 4 * SECOND),
            ("custom, broken", &broken, 1, 5 * SECOND),
            ("cut", &Backoff::custom(|_| Duration::MAX), 1, MAX_BACKOFF),
            ("fixed, cut", &Backoff::fixed(Duration::MAX), 1, MAX_BACKOFF),
            ("linear, cut", &huge_steps, u32::MAX, 3600 * SECOND),
            ("doubling, cut", &huge, u32::MAX, 3600 * SECOND),
        ] {
            assert_eq!(backoff.delay(attempt, 1.0), delay, "{name}");
        }
    }

    #[test]
    fn jitter_is_full() {
        let backoff = Backoff::exponential(SECOND);
        for (random, delay) in [
            (0.0, Duration::ZERO),
            (0.25, SECOND / 4),
            (f64::NAN, Duration::ZERO),
            (-1.0, Duration::ZERO),
            (f64::INFINITY, SECOND),
        ] {
            assert_eq!(backoff.delay(1, random), delay, "{random}");
        }
    }
}
