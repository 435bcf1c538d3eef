//! Moments and ages in a filter: read strictly, so that the database never refuses one.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The longest age that is taken seriously: a thousand years.
pub(super) const LONGEST_AGE: Duration = Duration::from_hours(1000 * 365 * 24);

/// The units of an age, the longest first, in milliseconds.
const UNITS: [(&str, u64); 6] = [
    ("w", 7 * 86_400_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

/// Reads an age such as `2h`, `1h30m`, `500ms`; `None` when it is none.
pub(super) fn age(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = 0_u64;
    while !rest.is_empty() || total == 0 && rest.len() == text.len() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let number: u64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let letters = rest.len()
            - rest
                .trim_start_matches(|c: char| c.is_ascii_alphabetic())
                .len();
        let (_, unit) = UNITS.iter().find(|(unit, _)| *unit == &rest[..letters])?;
        total = total.checked_add(number.checked_mul(*unit)?)?;
        rest = &rest[letters..];
    }
    let age = Duration::from_millis(total);
    (age <= LONGEST_AGE).then_some(age)
}

/// An age in the form that is read back.
pub(super) fn written_age(milliseconds: i64) -> String {
    let mut left = milliseconds.unsigned_abs();
    let mut written = String::new();
    for (unit, size) in UNITS {
        if left >= size {
            written.push_str(&(left / size).to_string());
            written.push_str(unit);
            left %= size;
        }
    }
    if written.is_empty() {
        written.push_str("0s");
    }
    written
}

/// Reads a moment: `2026-11-20`, `2026-11-20T10:00`, with seconds and their fraction, with `Z` or
/// an offset; without one it is UTC. Answers it in full; `None` when it is none.
pub(super) fn moment(text: &str) -> Option<String> {
    let (date, time) = match text.split_once(['T', 't']) {
        Some((date, time)) => (date, time),
        None => (text, "00:00"),
    };
    let [year, month, day] = *numbers(date, '-', [4, 2, 2])? else {
        return None;
    };
    let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 if leap => 29,
        2 => 28,
        1..=12 => 31,
        _ => return None,
    };
    if year == 0 || !(1..=days).contains(&day) {
        return None;
    }
    let (time, zone) = zone(time)?;
    let (time, fraction) = match time.split_once('.') {
        Some((time, fraction)) => (time, Some(fraction)),
        None => (time, None),
    };
    if fraction
        .is_some_and(|f| !(1..=9).contains(&f.len()) || !f.bytes().all(|b| b.is_ascii_digit()))
    {
        return None;
    }
    let (hour, minute, second) = match (numbers(time, ':', [2, 2, 2]), numbers(time, ':', [2, 2])) {
        (Some(parts), _) => (parts[0], parts[1], parts[2]),
        (None, Some(parts)) if fraction.is_none() => (parts[0], parts[1], 0),
        (None, _) => return None,
    };
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let fraction = fraction.map_or_else(String::new, |fraction| format!(".{fraction}"));
    Some(format!(
        "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}{zone}"
    ))
}

/// Parts a time from its zone, which is UTC when it has none.
fn zone(time: &str) -> Option<(&str, String)> {
    if let Some(time) = time.strip_suffix(['Z', 'z']) {
        return Some((time, "Z".to_owned()));
    }
    let Some(at) = time.find(['+', '-']) else {
        return Some((time, "Z".to_owned()));
    };
    let (time, offset) = time.split_at(at);
    let parts = numbers(offset.get(1..)?, ':', [2, 2])?;
    // No zone on earth is further off.
    if parts[0] > 14 || parts[1] > 59 {
        return None;
    }
    Some((time, offset.to_owned()))
}

/// Numbers of exactly these many digits.
fn numbers<const N: usize>(text: &str, between: char, digits: [usize; N]) -> Option<Box<[u32]>> {
    let parts: Vec<&str> = text.split(between).collect();
    if parts.len() != N {
        return None;
    }
    let read = |(part, digits): (&&str, usize)| {
        let is_number = part.len() == digits && part.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| part.parse().ok()).flatten()
    };
    parts.iter().zip(digits).map(read).collect()
}

/// A moment of a clock in the form that is read back, to the microsecond.
pub(super) fn written(moment: SystemTime) -> String {
    let micros = match moment.duration_since(UNIX_EPOCH) {
        Ok(after) => i128::try_from(after.as_micros()).unwrap_or(i128::MAX),
        Err(before) => -i128::try_from(before.duration().as_micros()).unwrap_or(i128::MAX),
    };
    // From the year 1 to the year 9999.
    let micros = micros.clamp(-62_135_596_800_000_000, 253_402_300_799_999_999);
    let (seconds, micros) = (micros.div_euclid(1_000_000), micros.rem_euclid(1_000_000));
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    let (year, month, day) = date(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{micros:06}Z",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
}

/// The date of a day counted from 1970-01-01: in years that begin in March, of which 400 have
/// 146,097 days, every month but the last has its days in a fixed pattern.
fn date(days: i128) -> (i128, i128, i128) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i128::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_are_read_and_written_alike() {
        for (text, milliseconds) in [
            ("2h", 7_200_000),
            ("1h30m", 5_400_000),
            ("500ms", 500),
            ("1w", 604_800_000),
            ("1d1ms", 86_400_001),
        ] {
            assert_eq!(
                age(text),
                Some(Duration::from_millis(milliseconds)),
                "{text}"
            );
            assert_eq!(
                written_age(i64::try_from(milliseconds).expect("small")),
                text
            );
        }
        assert_eq!(age("0s"), Some(Duration::ZERO));
        assert_eq!(written_age(0), "0s");
        for text in [
            "",
            "2",
            "h",
            "-2h",
            "2 h",
            "2x",
            "99999999999999999999d",
            "9999999w",
            "1.5h",
        ] {
            assert_eq!(age(text), None, "{text}");
        }
    }

    #[test]
    fn moments_are_read_strictly() {
        for (text, full) in [
            ("2026-11-20", "2026-11-20T00:00:00Z"),
            ("2026-11-20T10:00Z", "2026-11-20T10:00:00Z"),
            (
                "2024-02-29T23:59:59.123456+05:30",
                "2024-02-29T23:59:59.123456+05:30",
            ),
            ("0001-01-01t00:00z", "0001-01-01T00:00:00Z"),
        ] {
            assert_eq!(moment(text).as_deref(), Some(full), "{text}");
            assert_eq!(moment(full).as_deref(), Some(full));
        }
        for text in [
            "",
            "today",
            "2026-13-01",
            "2026-02-29",
            "0000-01-01",
            "2026-11-20T24:00",
            "2026-11-20T10",
            "2026-11-20T10:00.5Z",
            "2026-1-2",
            "2026-11-20T10:00+99:00",
            "2026-11-20T10:00:00.Z",
            "+026-11-20",
        ] {
            assert_eq!(moment(text), None, "{text}");
        }
    }

    #[test]
    fn moments_of_a_clock_are_written_in_utc() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (951_782_400, "2000-02-29T00:00:00.000000Z"),
            (1_700_000_000, "2023-11-14T22:13:20.000000Z"),
        ] {
            let written = written(UNIX_EPOCH + Duration::from_secs(seconds));
            assert_eq!(written, text);
            assert_eq!(moment(&written).as_deref(), Some(text));
        }
        let before = UNIX_EPOCH - Duration::from_micros(1);
        assert_eq!(written(before), "1969-12-31T23:59:59.999999Z");
    }
}
