//! Durations as text, in filters and on the command line.

use std::time::Duration;

use jiff::fmt::friendly::{Spacing, SpanPrinter};
use jiff::{Span, SpanRelativeTo, SpanRound, Unit};

use crate::error::{Error, Result};
use crate::job::milliseconds::milliseconds;

/// The longest duration that can be written: 100 years.
pub(crate) const MAX_DURATION: Duration = Duration::from_hours(100 * 365 * 24);

/// Parses a duration such as `500ms`, `90s`, `1h30m`, `1.5h`, `2 hours` or `7d`.
///
/// A day has 24 hours. The units of [`jiff::fmt::friendly`] and ISO 8601 are accepted, except
/// months and years, which have no fixed length. The longest duration is 100 years.
///
/// # Errors
/// *Invalid* if the text is no such duration.
pub fn parse_duration(text: &str) -> Result<Duration> {
    let span: Option<Span> = text.trim().parse().ok();
    let whole = |span: Span| span.to_duration(SpanRelativeTo::days_are_24_hours()).ok();
    let duration: Option<Duration> = span.and_then(whole).and_then(|it| it.try_into().ok());
    duration.filter(|it| *it <= MAX_DURATION).ok_or_else(|| {
        Error::invalid(
            "expected a duration such as 500ms, 90s, 1h30m or 7d: not negative, at most 100 years, \
             and without months and years, which have no fixed length",
        )
    })
}

/// Writes a duration of at most 100 years, to the millisecond, such as `1d12h`.
pub fn format_duration(duration: Duration) -> String {
    let whole = Span::new().milliseconds(milliseconds(duration.min(MAX_DURATION)));
    let units = SpanRound::new()
        .largest(Unit::Day)
        .smallest(Unit::Millisecond)
        .days_are_24_hours();
    // A span of at most 100 years always balances; milliseconds parse to the same duration.
    let span = whole.round(units).unwrap_or(whole);
    SpanPrinter::new()
        .spacing(Spacing::None)
        .span_to_string(&span)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_of_the_usual_units_is_written_in_its_canonical_form() {
        for (text, milliseconds, canonical) in [
            ("500ms", 500, "500ms"),
            ("90s", 90_000, "1m30s"),
            ("1h 30m", 5_400_000, "1h30m"),
            ("1.5h", 5_400_000, "1h30m"),
            ("2 hours", 7_200_000, "2h"),
            ("PT2H", 7_200_000, "2h"),
            ("1d12h", 129_600_000, "1d12h"),
            ("7d", 604_800_000, "7d"),
            ("1d1ms", 86_400_001, "1d1ms"),
            ("0s", 0, "0s"),
        ] {
            let duration = Duration::from_millis(milliseconds);
            assert_eq!(parse_duration(text).expect(text), duration, "{text}");
            assert_eq!(format_duration(duration), canonical);
        }
        let longest = format_duration(Duration::MAX);
        assert_eq!(parse_duration(&longest).expect(&longest), MAX_DURATION);
    }

    #[test]
    fn an_invalid_duration_is_rejected_with_the_expected_form() {
        for text in ["-5s", "2h ago", "", "90", "2x", "1000000d", "2y", "1.5.5s"] {
            let error = parse_duration(text).expect_err(text);
            error.assert_invalid("such as");
        }
    }
}
