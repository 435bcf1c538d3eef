//! How long a policy takes for the letters that wait now. Pure.

use std::time::Duration;

use redrive::dlq::UtcHours;

use crate::terminal::counted;
use crate::time::short;

const DAY: Duration = Duration::from_hours(24);

/// The letters that wait now, and the pace of a policy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backlog {
    pub(super) letters: u64,
    pub(super) batch: u32,
    pub(super) every: Duration,
    pub(super) hours: Option<UtcHours>,
}

impl Backlog {
    /// The number of ticks that redrive every letter once.
    pub(super) fn ticks(self) -> u64 {
        self.letters.div_ceil(u64::from(self.batch.max(1)))
    }

    /// The time from the first of these ticks to the last one.
    pub(super) fn duration(self) -> Duration {
        let later = self.ticks().saturating_sub(1);
        let Some(hours) = self.hours.map(hours_of_day) else {
            return times(self.every, later);
        };
        // The first tick of a day is in its first allowed hour.
        let window = Duration::from_hours(hours);
        let a_day = window
            .as_nanos()
            .div_ceil(self.every.as_nanos().max(1))
            .max(1);
        let a_day = u64::try_from(a_day).unwrap_or(u64::MAX);
        match self.every > DAY {
            true => times(self.every, later),
            false => times(DAY, later / a_day).saturating_add(times(self.every, later % a_day)),
        }
    }

    /// The estimate in a sentence.
    pub(super) fn text(self) -> String {
        match self.ticks() {
            0 => "no letter is waiting for it now".to_owned(),
            1 => format!(
                "its first tick redrives {} that {} now",
                counted(self.letters, "letter"),
                if self.letters == 1 { "waits" } else { "wait" }
            ),
            ticks => format!(
                "the {} that wait now take {}, about {}, if no more die",
                counted(self.letters, "letter"),
                counted(ticks, "tick"),
                short(self.duration())
            ),
        }
    }
}

fn hours_of_day(hours: UtcHours) -> u64 {
    let (from, to) = (u64::from(hours.from()), u64::from(hours.to()));
    (to + 24 - from) % 24
}

fn times(duration: Duration, count: u64) -> Duration {
    let seconds = u128::from(duration.as_secs()) * u128::from(count);
    let whole = Duration::from_secs(u64::try_from(seconds).unwrap_or(u64::MAX));
    let rest = duration.subsec_millis();
    whole.saturating_add(Duration::from_millis(u64::from(rest).saturating_mul(count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backlog_takes_as_many_ticks_as_batches() {
        let hour = Duration::from_hours(1);
        let night: UtcHours = "22-6".parse().expect("hours");
        for (letters, batch, every, hours, ticks, duration) in [
            (0, 50, hour, None, 0, Duration::ZERO),
            (50, 50, hour, None, 1, Duration::ZERO),
            (51, 50, hour, None, 2, hour),
            (12_000, 50, 6 * hour, None, 240, 239 * 6 * hour),
            // Eight ticks a night.
            (400, 50, hour, Some(night), 8, 7 * hour),
            (450, 50, hour, Some(night), 9, 24 * hour),
            (500, 50, hour, Some(night), 10, 25 * hour),
            (100, 50, 48 * hour, Some(night), 2, 48 * hour),
        ] {
            let backlog = Backlog {
                letters,
                batch,
                every,
                hours,
            };
            assert_eq!(backlog.ticks(), ticks, "{backlog:?}");
            assert_eq!(backlog.duration(), duration, "{backlog:?}");
        }
    }

    #[test]
    fn the_estimate_is_a_sentence() {
        let text = |letters| {
            let every = Duration::from_hours(6);
            let backlog = Backlog {
                letters,
                batch: 50,
                every,
                hours: None,
            };
            backlog.text()
        };
        assert_eq!(text(0), "no letter is waiting for it now");
        assert_eq!(text(1), "its first tick redrives 1 letter that waits now");
        assert_eq!(
            text(1_910),
            "the 1,910 letters that wait now take 39 ticks, about 9d 12h, if no more die"
        );
    }
}
