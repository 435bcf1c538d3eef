//! The flood guard: whether a worker writes more letters than it may. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use crate::floor::Instant;

/// Counts the letters of a moving span of time.
#[derive(Debug)]
pub(crate) struct Flood {
    most: usize,
    per: Duration,
    /// When the letters of the span were written, at most one more than are allowed.
    written: VecDeque<Instant>,
}

impl Flood {
    pub(crate) fn new(most: usize, per: Duration) -> Flood {
        Flood {
            most,
            per,
            written: VecDeque::new(),
        }
    }

    /// Takes note of a letter; answers whether it is one more than allowed. Then it counts anew.
    pub(crate) fn is_over(&mut self, now: Instant) -> bool {
        let since = |at: &Instant| now.saturating_duration_since(*at);
        while self.written.front().is_some_and(|at| since(at) >= self.per) {
            self.written.pop_front();
        }
        self.written.push_back(now);
        if self.written.len() <= self.most {
            return false;
        }
        self.written.clear();
        true
    }

    /// What is said about it.
    pub(crate) fn message(&self) -> String {
        format!("over {} letters within {:?}", self.most, self.per)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_beyond_the_most_of_a_span_are_a_flood() {
        let (minute, start) = (Duration::from_mins(1), Instant::now());
        let mut flood = Flood::new(3, minute);
        for (seconds, over) in [
            (0, false),
            (0, false),
            (30, false),
            // The first two are a minute old.
            (60, false),
            (60, false),
            (61, true),
            // It counts anew.
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
