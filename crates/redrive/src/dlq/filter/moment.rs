//! Timestamps in a filter, normalized to UTC, because each session has a time zone of its own.

use std::time::{SystemTime, UNIX_EPOCH};

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::error::{Error, Result};

/// Parses a timestamp: `2026-11-20`, `2026-11-20T10:00`, with or without seconds, with `Z` or an
/// offset. Without either it is UTC.
///
/// # Errors
/// *Invalid* if the text is no such timestamp.
pub fn parse_moment(text: &str) -> Result<SystemTime> {
    let civil = || {
        // A time zone in brackets would be ignored.
        let civil: Option<DateTime> = text.parse().ok().filter(|_| !text.contains('['));
        Some(civil?.to_zoned(TimeZone::UTC).ok()?.timestamp())
    };
    let timestamp: Option<Timestamp> = text.parse().ok().or_else(civil);
    timestamp.map(SystemTime::from).ok_or_else(|| {
        Error::invalid("expected a time such as 2026-12-01T06:00 or 2026-12-01T07:00+01:00")
    })
}

/// Writes a time to the microsecond, limited to the years before 10000.
pub(in crate::dlq) fn written(moment: SystemTime) -> String {
    let timestamp = Timestamp::try_from(moment).unwrap_or(match moment < UNIX_EPOCH {
        true => Timestamp::MIN,
        false => Timestamp::MAX,
    });
    let micros = Timestamp::from_microsecond(timestamp.as_microsecond());
    micros.unwrap_or(Timestamp::MAX).to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_timestamp_is_normalized_to_utc() {
        for (text, full) in [
            ("2026-11-20", "2026-11-20T00:00:00Z"),
            ("2026-11-20T10:00", "2026-11-20T10:00:00Z"),
            (
                "2024-02-29T23:59:59.123456+05:30",
                "2024-02-29T18:29:59.123456Z",
            ),
            ("0001-01-01t00:00z", "0001-01-01T00:00:00Z"),
        ] {
            assert_eq!(parse_moment(text).map(written).expect(text), full);
            assert_eq!(parse_moment(full).map(written).expect(full), full);
        }
    }

    #[test]
    fn a_system_time_is_written_in_utc_to_the_microsecond() {
        assert_eq!(written(UNIX_EPOCH), "1970-01-01T00:00:00Z");
        let before = UNIX_EPOCH - Duration::from_micros(1);
        assert_eq!(written(before), "1969-12-31T23:59:59.999999Z");
        let latest = UNIX_EPOCH + Duration::from_secs(1 << 40);
        assert!(written(latest).starts_with("9999-12-30T"));
    }
}
