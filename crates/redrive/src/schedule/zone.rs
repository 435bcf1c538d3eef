//! Time zones by their IANA names.

use jiff::tz::{self, TimeZone};

use crate::error::{Error, Result};

/// The longest name of a zone, in characters.
const MAX_ZONE_CHARS: usize = 100;

/// Returns the zone with this name, such as `Europe/Berlin`, if this process knows it. Upper and lower case do not matter:
/// the zone has its name as the database of zones spells it.
///
/// # Errors
/// *Invalid* with the position up to which the name agrees with a known zone.
pub(crate) fn named(name: &str) -> Result<TimeZone> {
    if name.eq_ignore_ascii_case("UTC") {
        return Ok(TimeZone::UTC);
    }
    let zone = TimeZone::get(name).ok();
    zone.filter(|zone| zone.iana_name().is_some())
        .ok_or_else(|| unknown(name, tz::db().available().map(|known| known.to_string())))
}

/// Returns the error for an unknown zone: the first character that no known zone has there, and the known
/// zone that agrees the longest.
fn unknown(name: &str, known: impl Iterator<Item = String>) -> Error {
    let shown: String = name.chars().take(MAX_ZONE_CHARS).collect();
    let agrees = |other: &str| {
        let pairs = name.chars().zip(other.chars());
        pairs.take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count()
    };
    // A city may be given without its continent.
    let agreeing = |other: &str| {
        let city = other.rsplit_once('/').map_or(0, |(_, city)| agrees(city));
        agrees(other).max(city)
    };
    // The shortest of those that agree alike, and the first of these, so that the answer is stable.
    let nearest = known
        .map(|other| (agreeing(&other), other))
        .filter(|(agreed, _)| *agreed > 0)
        .min_by(|(a, x), (b, y)| b.cmp(a).then_with(|| (x.len(), x).cmp(&(y.len(), y))));
    let (at, hint) = match nearest {
        Some((agreed, other)) => (agreed + 1, format!("; the nearest is `{other}`")),
        None => (1, String::new()),
    };
    Error::invalid(format!(
        "the time zone `{}` is unknown from character {at} on; expected a name such as \
         Europe/Berlin{hint}",
        shown.escape_debug()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zone_is_found_by_its_name() {
        for (given, name) in [
            ("Europe/Berlin", "Europe/Berlin"),
            ("america/new_york", "America/New_York"),
            ("utc", "UTC"),
            ("Australia/Lord_Howe", "Australia/Lord_Howe"),
        ] {
            let zone = named(given).expect(given);
            assert_eq!(zone.iana_name(), Some(name));
        }
    }

    #[test]
    fn an_unknown_zone_is_reported_with_the_position_of_the_mistake() {
        for (name, at, hint) in [
            ("Europe/Berln", 12, "`Europe/Berlin`"),
            ("Eurpe/Berlin", 4, "`Europe/"),
            ("Berlin", 7, "`Europe/Berlin`"),
            ("#", 1, "such as Europe/Berlin"),
            ("", 1, "such as Europe/Berlin"),
        ] {
            let error = named(name).expect_err(name);
            let text = error.to_string();
            assert!(
                error.is_invalid()
                    && text.contains(&format!("from character {at} on"))
                    && text.contains(hint),
                "{name}: {text}"
            );
        }
    }
}
