//! Cron lines: a mistake is reported with its position, and the next time is searched. Pure.

use std::fmt;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};

use crate::error::{Error, Result};

/// The names of a line that start with `@`.
const NICKNAMES: &str = "@yearly, @annually, @monthly, @weekly, @daily or @hourly";
/// The fields of a line with their values. A line of five fields has no seconds.
const FIELDS: [(&str, &str); 6] = [
    ("second", "0-59"),
    ("minute", "0-59"),
    ("hour", "0-23"),
    ("day of the month", "1-31"),
    ("month", "1-12 or JAN-DEC"),
    ("day of the week", "0-7 or SUN-SAT"),
];

/// A valid cron line in a time zone.
#[derive(Clone)]
pub(crate) struct CronLine {
    /// With single blanks between the fields.
    pub(crate) text: String,
    pub(crate) zone: TimeZone,
    /// Half a kilobyte.
    cron: Box<Cron>,
    /// Whether no field of the time has a wildcard or a step.
    is_fixed_time: bool,
}

impl CronLine {
    /// Parses a line of five fields, or of six with the seconds first, or a nickname such as `@daily`. It is in UTC.
    ///
    /// # Errors
    /// *Invalid* with the position of the mistake, in characters from 1, with single blanks between the fields.
    pub(crate) fn parse(line: &str) -> Result<CronLine> {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let text = fields.join(" ");
        let shown = text.escape_debug();
        let (at, what) = match (parse(&text), fields.len()) {
            (Ok(cron), 1 | 5 | 6) if !text.split([',', ' ']).any(str::is_empty) => {
                let time = &fields[..fields.len().saturating_sub(3)];
                let has_step = time.iter().any(|field| field.contains(['*', '/']));
                return Ok(CronLine {
                    is_fixed_time: !has_step && !text.eq_ignore_ascii_case("@hourly"),
                    zone: TimeZone::UTC,
                    text,
                    cron,
                });
            }
            (_, 5 | 6) => find_mistake(&fields),
            _ if text.starts_with('@') => (1, format!("`{shown}` is not {NICKNAMES}")),
            (_, count) => {
                let sixth = fields.iter().take(FIELDS.len());
                let what = format!(
                    "the line has {count} fields; expected minute, hour, day of the month, month and day of the \
                     week, and perhaps the second before them"
                );
                (
                    1 + sixth.map(|field| field.chars().count() + 1).sum::<usize>(),
                    what,
                )
            }
        };
        Err(Error::invalid(format!(
            "the cron line `{shown}` is invalid at character {at}: {what}"
        )))
    }

    /// Returns the first time after `after`, to the second; `None`: there is none that a schedule can
    /// store.
    pub(crate) fn next_after(&self, after: Timestamp) -> Option<Timestamp> {
        let start = after.to_zoned(self.zone.clone());
        if !self.is_fixed_time {
            let next = self.cron.find_next_occurrence(&start, false).ok()?;
            return Some(next.timestamp());
        }
        // Croner knows only single values as a fixed time, so it searches the local times, without the zone.
        // Later local times never have an earlier instant, so none is left out. The times of a gap share
        // one instant, and in a repeated hour all instants have passed the second time.
        let mut local = start.datetime();
        loop {
            local = self.cron.find_next_occurrence(&local, false).ok()?;
            let next = first_instant(local, &self.zone)?;
            if next > after {
                return Some(next);
            }
        }
    }
}

impl fmt::Debug for CronLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The parsed form has thousands of numbers.
        write!(f, "CronLine({})", self.text)
    }
}

/// Returns the first instant of a local time, or the end of the gap if the time does not exist.
fn first_instant(local: DateTime, zone: &TimeZone) -> Option<Timestamp> {
    let instant = zone.to_ambiguous_timestamp(local);
    let is_in_gap = matches!(instant.offset(), AmbiguousOffset::Gap { .. });
    let first = instant.earlier().ok()?;
    // The earlier instant of a time in a gap is before the gap.
    match is_in_gap {
        true => Some(zone.following(first).next()?.timestamp()),
        false => Some(first),
    }
}

fn parse(text: &str) -> std::result::Result<Box<Cron>, croner::errors::CronError> {
    CronParser::builder()
        .seconds(Seconds::Optional)
        .year(Year::Disallowed)
        .build()
        .parse(text)
        .map(Box::new)
}

/// Finds the field, and in it the item of its list, that makes the line invalid, and its position from 1.
fn find_mistake(fields: &[&str]) -> (usize, String) {
    let without_seconds = FIELDS.len() - fields.len();
    let mut at = 1;
    for (field, place) in fields.iter().zip(without_seconds..) {
        for item in field.split(',') {
            let mut alone = ["0", "*", "*", "*", "*", "*"];
            alone[place] = item;
            if item.is_empty() || parse(&alone.join(" ")).is_err() {
                let ((name, values), item) = (FIELDS[place], item.escape_debug());
                return (at, format!("`{item}` is not a valid {name} ({values})"));
            }
            at += item.chars().count() + 1;
        }
    }
    (1, "the fields do not fit together".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_reported_with_its_position() {
        for (line, at, why) in [
            ("", 1, "the line has 0 fields"),
            ("0 8 * *", 9, "the line has 4 fields"),
            ("0 8 * * MON x y", 15, "the line has 7 fields"),
            ("0 25 * * *", 3, "`25` is not a valid hour (0-23)"),
            ("60 8 * * *", 1, "`60` is not a valid minute"),
            ("0 8 32 * *", 5, "day of the month (1-31)"),
            ("0 8 * 13 *", 7, "`13` is not a valid month"),
            ("0 8 * * FOO", 9, "`FOO` is not a valid day of the week"),
            ("0 1,2,99,3 * * *", 7, "`99` is not a valid hour"),
            ("  0  1,2,99 * * *", 7, "`99` is not a valid hour"),
            ("61 0 8 * * *", 1, "`61` is not a valid second"),
            ("0 61 8 * * *", 3, "`61` is not a valid minute"),
            ("*/0 * * * *", 1, "`*/0` is not a valid minute"),
            ("5-1 * * * *", 1, "`5-1` is not a valid minute"),
            ("1, * * * *", 3, "`` is not a valid minute"),
            ("@sometimes", 1, "is not @yearly"),
            ("  @noon", 1, "is not @yearly"),
            ("ä 8 * * *", 1, "`ä` is not a valid minute"),
            (
                "0 8 * * * 2030",
                11,
                "`2030` is not a valid day of the week",
            ),
        ] {
            let error = CronLine::parse(line).expect_err(line);
            let text = error.to_string();
            assert!(error.is_invalid(), "{line}: {text}");
            let is_told = text.contains(&format!("at character {at}: ")) && text.contains(why);
            assert!(is_told, "{line}: {text}");
        }
    }

    #[test]
    fn the_usual_lines_are_accepted() {
        for line in [
            "0 8 * * MON-FRI",
            "*/5 * * * *",
            "30 0 8 * * *",
            "0 0 L * *",
            "0 0 15W * *",
            "0 9 * * MON#1",
            "0 0 1,15 JAN,JUL ?",
            "@daily",
            "@HOURLY",
            "0 0 * * 7",
        ] {
            let parsed = CronLine::parse(line).expect(line);
            assert_eq!(parsed.text, line);
        }
        let spaced = CronLine::parse(" 0  8 *  * * ").expect("a line with blanks");
        assert_eq!(spaced.text, "0 8 * * *");
    }
}
