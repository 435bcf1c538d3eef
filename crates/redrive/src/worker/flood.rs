//! Detects when a worker dead-letters too many jobs. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use crate::sync::Instant;

/// Counts letters in a sliding window.
#[derive(Debug)]
pub(crate) struct FloodGuard {
    max_letters: usize,
    per: Duration,
    /// When the letters in the window were written, at most one more than allowed.
    written: VecDeque<Instant>,
}

impl FloodGuard {
    pub(crate) fn new(max_letters: usize, per: Duration) -> FloodGuard {
        FloodGuard {
            max_letters,
            per,
            written: VecDeque::new(),
        }
    }

    /// Records a letter. Returns whether it exceeds the limit; the count then restarts.
    pub(crate) fn is_over(&mut self, now: Instant) -> bool {
        let since = |at: &Instant| now.saturating_duration_since(*at);
        while self.written.front().is_some_and(|at| since(at) >= self.per) {
            self.written.pop_front();
        }
        self.written.push_back(now);
        if self.written.len() <= self.max_letters {
            return false;
        }
        self.written.clear();
        true
    }

    /// Returns the message for the breaker.
    pub(crate) fn message(&self) -> String {
        format!(
            "more than {} letters within {:?}",
            self.max_letters, self.per
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_over_the_limit_of_a_window_are_a_flood() {
        let (minute, start) = (Duration::from_mins(1), Instant::now());
        let mut flood = FloodGuard::new(3, minute);
        for (seconds, over) in [
            (0, false),
            (0, false),
            (30, false),
            // The first two are a minute old.
            (60, false),
            (60, false),
            (61, true),
            // The count restarted.
            (62, false),
            (62, false),
            (62, false),
            (121, true),
        ] {
            let now = start + Duration::from_secs(seconds);
            assert_eq!(flood.is_over(now), over, "after {seconds} s");
        }
    }
}
