//! Durations on the command line, and how long ago something was.

use std::time::{Duration, SystemTime};

/// The longest duration that is taken seriously: a hundred years.
const LONGEST: Duration = Duration::from_hours(100 * 365 * 24);

/// Reads a duration such as `500ms`, `90s`, `1h30m` or `2d`.
pub(crate) fn parse(text: &str) -> Result<Duration, String> {
    let text = text.trim();
    if text.starts_with('-') {
        return Err("a duration cannot be negative".to_owned());
    }
    let duration = humantime::parse_duration(text)
        .map_err(|error| format!("{error}; durations look like 500ms, 90s, 5m, 1h30m or 2d"))?;
    if duration > LONGEST {
        return Err("that is over a hundred years".to_owned());
    }
    Ok(duration)
}

/// A duration in at most two units: `1h 30m`, `12s`, `250ms`.
pub(crate) fn short(duration: Duration) -> String {
    const UNITS: [(&str, u64); 4] = [("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1)];
    let seconds = duration.as_secs();
    let Some(first) = UNITS.iter().position(|(_, unit)| seconds >= *unit) else {
        return format!("{}ms", duration.subsec_millis());
    };
    let (name, unit) = UNITS[first];
    let whole = format!("{}{name}", seconds / unit);
    match UNITS
        .get(first + 1)
        .map(|(name, next)| (name, seconds % unit / next))
    {
        Some((name, rest)) if rest > 0 => format!("{whole} {rest}{name}"),
        _ => whole,
    }
}

/// How long ago a moment was, by this machine's clock.
pub(crate) fn ago(moment: SystemTime) -> String {
    let age = SystemTime::now().duration_since(moment).unwrap_or_default();
    if age.as_secs() == 0 {
        "0s".to_owned()
    } else {
        short(age)
    }
}

/// A moment as RFC 3339 in UTC, with milliseconds.
pub(crate) fn rfc3339(moment: SystemTime) -> String {
    jiff::Timestamp::try_from(moment).map_or_else(
        |_| "a time out of range".to_owned(),
        |timestamp| format!("{timestamp:.3}"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, millis) in [
            ("500ms", 500),
            ("90s", 90_000),
            ("5m", 300_000),
            ("1h30m", 5_400_000),
            ("2d", 172_800_000),
            ("0s", 0),
        ] {
            assert_eq!(parse(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn absurd_durations_say_why() {
        for (text, why) in [
            ("-5s", "negative"),
            ("", "look like"),
            ("90", "look like"),
            ("soon", "look like"),
            ("99999999999999999999s", "look like"),
            ("1000000d", "hundred years"),
            ("1.5.5s", "look like"),
        ] {
            let error = parse(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn short_durations_have_two_units_at_most() {
        for (seconds, text) in [
            (0, "0ms"),
            (59, "59s"),
            (60, "1m"),
            (3_725, "1h 2m"),
            (200_000, "2d 7h"),
            (86_400, "1d"),
        ] {
            assert_eq!(short(Duration::from_secs(seconds)), text);
        }
        assert_eq!(short(Duration::from_millis(250)), "250ms");
    }

    #[test]
    fn moments_are_rfc_3339_and_never_panic() {
        assert_eq!(rfc3339(SystemTime::UNIX_EPOCH), "1970-01-01T00:00:00.000Z");
        assert_eq!(
            rfc3339(SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_123)),
            "2023-11-14T22:13:20.123Z"
        );
        assert_eq!(
            rfc3339(SystemTime::UNIX_EPOCH + Duration::from_secs(1 << 40)),
            "a time out of range"
        );
    }
}
