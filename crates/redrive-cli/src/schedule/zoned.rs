//! Times in the zone of a schedule.

use std::time::SystemTime;

use jiff::Timestamp;
use jiff::tz::TimeZone;

use crate::time::rfc3339;

/// Returns a time in a zone, such as `Mon 2026-03-30 08:00:00 +02:00`. In a zone that this machine does not
/// know, and without one, it is in UTC.
pub(super) fn zoned(at: SystemTime, zone: Option<&str>) -> String {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

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
}
