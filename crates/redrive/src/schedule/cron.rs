//! Cron lines: a mistake is reported with its position, and the next time is searched. Pure.

use std::fmt;

use croner::Cron;
use croner::parser::{CronParser, Seconds, Year};
use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::{AmbiguousOffset, TimeZone};

use crate::error::{Error, Result};

/// The longest cron line, in bytes.
const MAX_LINE_BYTES: usize = 256;
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

/// A valid cron line.
#[derive(Clone)]
pub(crate) struct CronLine {
    text: String,
    /// Half a kilobyte.
    cron: Box<Cron>,
    /// Whether no field of the time has a wildcard or a step.
    is_fixed_time: bool,
}

impl CronLine {
    /// Parses a line of five fields, or of six with the seconds first, or a nickname such as `@daily`.
    ///
    /// # Errors
    /// *Invalid* with the position of the mistake, in characters from 1.
    pub(crate) fn parse(line: &str) -> Result<CronLine> {
        let text = line.trim();
        if text.len() > MAX_LINE_BYTES {
            return Err(Error::invalid(format!(
                "the cron line has {} bytes; the limit is {MAX_LINE_BYTES}",
                text.len()
            )));
        }
        if let Some(at) = line.chars().position(char::is_control) {
            return Err(mistake(line, at, "a control character"));
        }
        if text.starts_with('@') {
            let cron = parse(text).map_err(|cause| {
                let at = first_position(line);
                let what = format!("`{}` is not {NICKNAMES}", text.escape_debug());
                mistake(line, at, &what).caused_by(cause)
            })?;
            return Ok(CronLine {
                text: text.to_owned(),
                is_fixed_time: !cron.pattern.hours.from_wildcard,
                cron,
            });
        }
        let fields = fields(line);
        if !matches!(fields.len(), 5 | 6) {
            let end = line.trim_end().chars().count();
            let at = fields.get(6).map_or(end, |(at, _)| *at);
            let what = format!(
                "the line has {} fields; expected minute, hour, day of the month, month and day of the week, and \
                 perhaps the second before them",
                fields.len()
            );
            return Err(mistake(line, at, &what));
        }
        let has_gap = |(_, field): &(usize, &str)| field.split(',').any(str::is_empty);
        if fields.iter().any(has_gap) {
            return Err(find_mistake(line, &fields));
        }
        let (time, _days) = fields.split_at(fields.len() - 3);
        match parse(text) {
            Ok(cron) => Ok(CronLine {
                text: fields
                    .iter()
                    .map(|(_, field)| *field)
                    .collect::<Vec<_>>()
                    .join(" "),
                cron,
                is_fixed_time: !time.iter().any(|(_, field)| field.contains(['*', '/'])),
            }),
            Err(cause) => Err(find_mistake(line, &fields).caused_by(cause)),
        }
    }

    /// Returns the first time after `after`, to the second; `None`: there is none that a schedule can
    /// store.
    pub(crate) fn next_after(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let start = after.to_zoned(zone.clone());
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
            let next = first_instant(local, zone)?;
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

impl fmt::Display for CronLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.text)
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

/// Returns the fields, each with its position in characters from 0.
fn fields(line: &str) -> Vec<(usize, &str)> {
    let at = |field: &str| {
        let byte = field.as_ptr().addr() - line.as_ptr().addr();
        line[..byte].chars().count()
    };
    let fields = line.split_whitespace();
    fields.map(|field| (at(field), field)).collect()
}

/// Finds the field, and in it the item of its list, that makes the line invalid.
fn find_mistake(line: &str, fields: &[(usize, &str)]) -> Error {
    let without_seconds = FIELDS.len() - fields.len();
    let is_valid = |place: usize, text: &str| {
        let mut alone = ["0", "*", "*", "*", "*", "*"];
        alone[place] = text;
        !text.split(',').any(str::is_empty) && parse(&alone.join(" ")).is_ok()
    };
    for (n, (start, field)) in fields.iter().enumerate() {
        let place = n + without_seconds;
        if is_valid(place, field) {
            continue;
        }
        let (name, values) = FIELDS[place];
        let mut from = *start;
        let mut items = field.split(',').map(|item| {
            let at = from;
            from += item.chars().count() + 1;
            (at, item)
        });
        let wrong = items.find(|(_, item)| !is_valid(place, item));
        let (at, text) = wrong.unwrap_or((*start, field));
        let what = format!("`{}` is not a valid {name} ({values})", text.escape_debug());
        return mistake(line, at, &what);
    }
    mistake(line, first_position(line), "the fields do not fit together")
}

fn first_position(line: &str) -> usize {
    line.chars().take_while(|c| c.is_whitespace()).count()
}

/// Returns the error for a mistake at a character, counted from 0.
fn mistake(line: &str, at: usize, what: &str) -> Error {
    let shown: String = line.chars().take(MAX_LINE_BYTES).collect();
    Error::invalid(format!(
        "the cron line `{}` is invalid at character {}: {what}",
        shown.escape_debug(),
        at + 1
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_is_reported_with_its_position() {
        for (line, at, why) in [
            ("", 1, "the line has 0 fields"),
            ("0 8 * *", 8, "the line has 4 fields"),
            ("0 8 * * MON x y", 15, "the line has 7 fields"),
            ("0 25 * * *", 3, "`25` is not a valid hour (0-23)"),
            ("60 8 * * *", 1, "`60` is not a valid minute"),
            ("0 8 32 * *", 5, "day of the month (1-31)"),
            ("0 8 * 13 *", 7, "`13` is not a valid month"),
            ("0 8 * * FOO", 9, "`FOO` is not a valid day of the week"),
            ("0 1,2,99,3 * * *", 7, "`99` is not a valid hour"),
            ("  0  1,2,99 * * *", 10, "`99` is not a valid hour"),
            ("61 0 8 * * *", 1, "`61` is not a valid second"),
            ("0 61 8 * * *", 3, "`61` is not a valid minute"),
            ("*/0 * * * *", 1, "`*/0` is not a valid minute"),
            ("5-1 * * * *", 1, "`5-1` is not a valid minute"),
            ("1, * * * *", 3, "`` is not a valid minute"),
            ("0 8 * * *\n", 10, "a control character"),
            ("@sometimes", 1, "is not @yearly"),
            ("  @noon", 3, "is not @yearly"),
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
        let long = format!("{} 8 * * *", "1,".repeat(200));
        let error = CronLine::parse(&long).expect_err("long").to_string();
        assert!(error.contains("256"), "{error}");
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
            assert_eq!(parsed.to_string(), line);
        }
        let spaced = CronLine::parse(" 0  8 *  * * ").expect("a line with blanks");
        assert_eq!(spaced.to_string(), "0 8 * * *");
    }
}
