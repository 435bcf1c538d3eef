//! Time zones by their IANA names.

use jiff::tz::{self, TimeZone};

use crate::error::{Error, Result};

/// Returns the zone with this name, such as `Europe/Berlin`, if this process knows it. Upper and lower case do not matter:
/// the zone has its name as the database of zones spells it.
///
/// # Errors
/// *Invalid* with the position up to which the name agrees with a known zone.
pub(crate) fn named(name: &str) -> Result<TimeZone> {
    let zone = TimeZone::get(name).ok();
    zone.filter(|zone| zone.iana_name().is_some())
        .ok_or_else(|| unknown(name))
}

/// Returns the error for an unknown zone, with the first character that no known zone has there.
fn unknown(name: &str) -> Error {
    let agrees = |known: &str| {
        let pairs = name.chars().zip(known.chars());
        pairs.take_while(|(a, b)| a.eq_ignore_ascii_case(b)).count()
    };
    let known = tz::db().available();
    let agreed = known.map(|known| agrees(&known.to_string())).max();
    let at = agreed.unwrap_or(0) + 1;
    Error::invalid(format!(
        "the time zone `{}` is unknown from character {at} on; expected a name such as \
         Europe/Berlin",
        name.escape_debug()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_zone_is_reported_with_the_position_of_the_mistake() {
        for (name, at) in [("Europe/Berln", 12), ("Eurpe/Berlin", 4), ("#", 1), ("", 1)] {
            let error = named(name).expect_err(name);
            let text = error.to_string();
            let expected = format!("from character {at} on; expected a name such as");
            assert!(
                error.is_invalid() && text.contains(&expected),
                "{name}: {text}"
            );
        }
    }
}
