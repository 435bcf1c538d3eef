//! Time zones by their IANA names.

use std::fmt;

use jiff::tz::{self, TimeZone};

use crate::error::{Error, Result};

/// The longest name of a zone, in characters.
const MAX_ZONE_CHARS: usize = 100;

/// A time zone that this process knows.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    name: String,
    rules: TimeZone,
}

impl Zone {
    /// Returns UTC, the zone of a schedule without one.
    pub(crate) fn utc() -> Zone {
        Zone {
            name: "UTC".to_owned(),
            rules: TimeZone::UTC,
        }
    }

    /// Returns the zone with this name, such as `Europe/Berlin`. Upper and lower case do not matter.
    ///
    /// # Errors
    /// *Invalid* with the position up to which the name agrees with a known zone.
    pub(crate) fn named(name: &str) -> Result<Zone> {
        if name.eq_ignore_ascii_case("UTC") {
            return Ok(Zone::utc());
        }
        TimeZone::get(name)
            .ok()
            .and_then(|rules| {
                let name = rules.iana_name()?.to_owned();
                Some(Zone { name, rules })
            })
            .ok_or_else(|| unknown(name, tz::db().available().map(|known| known.to_string())))
    }

    /// Returns the rules of the zone.
    pub(crate) fn rules(&self) -> &TimeZone {
        &self.rules
    }

    /// Returns the name as the database of zones spells it.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name)
    }
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
            assert_eq!(Zone::named(given).expect(given).name(), name);
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
            let error = Zone::named(name).expect_err(name);
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
