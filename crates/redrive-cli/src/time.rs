//! Durations and timestamps on the command line.

use std::cell::RefCell;
use std::str::FromStr;
use std::time::{Duration, Instant, SystemTime};

use jiff::Timestamp;
use jiff::tz::TimeZone;
use redrive::Database;
use serde_json::{Map, Value};

pub(crate) use redrive::{
    format_duration as exact, parse_duration as parse, parse_moment as moment,
};

thread_local! {
    static CLOCK: RefCell<Clock> = const { RefCell::new(Clock::Own) };
}

/// The clock by which this thread tells ages.
#[derive(Debug)]
pub(crate) enum Clock {
    /// That of this machine.
    Own,
    /// That of a database, which tells its time when it is needed.
    Of(Database),
    /// The time at that moment.
    Known(SystemTime, Instant),
}

impl Clock {
    /// Tells ages by this clock.
    pub(crate) fn set(self) {
        CLOCK.set(self);
    }
}

/// The time of the database, or else of this machine.
pub(crate) fn now() -> SystemTime {
    CLOCK.with_borrow_mut(|clock| {
        if let Clock::Of(db) = clock {
            let told = db.admin().now();
            *clock = told.map_or(Clock::Own, |now| Clock::Known(now, Instant::now()));
        }
        match clock {
            Clock::Known(now, since) => *now + since.elapsed(),
            Clock::Own | Clock::Of(_) => SystemTime::now(),
        }
    })
}

/// Parses a number per time, such as `100/1s`, `5/m` or `10000/1h30m`.
pub(crate) fn per<N: FromStr>(text: &str) -> Option<(N, Duration)> {
    let (number, period) = text.split_once('/')?;
    let period = period.trim();
    let period = match period.starts_with(|first: char| first.is_ascii_digit()) {
        true => parse(period),
        false => parse(&format!("1{period}")),
    };
    Some((number.trim().parse().ok()?, period.ok()?))
}

/// A duration in at most two units: `1h30m`, `12s`, `250ms`.
pub(crate) fn short(duration: Duration) -> String {
    let seconds = duration.as_secs();
    let step = match seconds {
        0 => return exact(duration),
        1..3_600 => 1,
        3_600..86_400 => 60,
        _ => 3_600,
    };
    exact(Duration::from_secs(seconds / step * step))
}

/// The time since `at`.
pub(crate) fn ago(at: SystemTime) -> String {
    let age = now().duration_since(at).unwrap_or_default();
    match age.as_secs() {
        0 => "0s".to_owned(),
        _ => short(age),
    }
}

/// The time until `at`, or `now` if it has come. Without a time: `never`.
pub(crate) fn wait_for(at: Option<SystemTime>) -> String {
    match at.map(|at| at.duration_since(now())) {
        None => "never".to_owned(),
        Some(Ok(left)) => short(left),
        Some(Err(_)) => "now".to_owned(),
    }
}

/// A timestamp as RFC 3339 in UTC, with milliseconds.
pub(crate) fn rfc3339(at: SystemTime) -> String {
    Timestamp::try_from(at).map_or_else(
        |_| "a time out of range".to_owned(),
        |timestamp| format!("{timestamp:.3}"),
    )
}

/// Returns a time in a zone, such as `Mon 2026-03-30 08:00:00 +02:00`. In a zone that this machine does not
/// know, and without one, it is in UTC.
pub(crate) fn zoned(at: SystemTime, zone: Option<&str>) -> String {
    let rules = zone
        .and_then(|zone| TimeZone::get(zone).ok())
        .unwrap_or(TimeZone::UTC);
    match Timestamp::try_from(at) {
        Ok(timestamp) => timestamp
            .to_zoned(rules)
            .strftime("%a %Y-%m-%d %H:%M:%S %:z")
            .to_string(),
        Err(_) => rfc3339(at),
    }
}

/// A stored timestamp in the form of [`rfc3339`]; unchanged if it is none.
pub(crate) fn stored(at: &str) -> String {
    match at.parse::<Timestamp>() {
        Ok(timestamp) => format!("{timestamp:.3}"),
        Err(_) => at.to_owned(),
    }
}

/// Writes the times of a stored object, such as `at` and `ends_at`, in the form of [`rfc3339`].
pub(crate) fn with_stored_times(object: &mut Map<String, Value>) {
    for (name, value) in object {
        if (name == "at" || name.ends_with("_at"))
            && let Some(at) = value.as_str()
        {
            *value = stored(at).into();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_durations_have_two_units_at_most() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (3_725, "1h2m"),
            (200_000, "2d7h"),
            (86_400, "1d"),
            (2_592_000, "30d"),
        ] {
            assert_eq!(short(Duration::from_secs(seconds)), text);
        }
        assert_eq!(short(Duration::from_millis(250)), "250ms");
    }

    #[test]
    fn a_rate_is_a_number_per_time() {
        for (text, number, seconds) in [
            ("100/1s", 100, 1),
            ("100/s", 100, 1),
            ("5/m", 5, 60),
            ("7 / 1h30m", 7, 5400),
        ] {
            let period = Duration::from_secs(seconds);
            assert_eq!(per::<u32>(text), Some((number, period)), "{text}");
        }
        for text in "|100|/s|100/|-1/s|1.5/s|100/x|99999999999/s|1/s/s".split('|') {
            assert_eq!(per::<u32>(text), None, "{text}");
        }
    }

    #[test]
    fn ages_count_by_the_clock_of_the_database() {
        let hours = Duration::from_hours;
        let moment = SystemTime::UNIX_EPOCH + hours(1_000);
        Clock::Known(moment, Instant::now()).set();
        assert_eq!(ago(moment - hours(3)), "3h");
        assert_eq!(ago(moment + hours(1)), "0s");
        let left = wait_for(Some(moment + hours(2)));
        assert!(left.starts_with("1h59m") || left == "2h", "{left}");
        assert_eq!(wait_for(Some(moment - hours(1))), "now");
        Clock::Own.set();
        assert_ne!(ago(moment), "0s");
    }

    #[test]
    fn a_time_is_shown_in_the_zone() {
        let at = SystemTime::UNIX_EPOCH + Duration::from_hours(493_014);
        for (zone, text) in [
            (Some("Europe/Berlin"), "Mon 2026-03-30 08:00:00 +02:00"),
            (Some("Europe/Atlantis"), "Mon 2026-03-30 06:00:00 +00:00"),
            (None, "Mon 2026-03-30 06:00:00 +00:00"),
        ] {
            assert_eq!(zoned(at, zone), text);
        }
    }

    #[test]
    fn timestamps_are_rfc_3339_and_never_panic() {
        assert_eq!(rfc3339(SystemTime::UNIX_EPOCH), "1970-01-01T00:00:00.000Z");
        let far = SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40);
        assert_eq!(rfc3339(far), "a time out of range");
    }
}
