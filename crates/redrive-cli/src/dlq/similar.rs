//! The name that an operator probably meant. Pure.

use strsim::levenshtein;

/// Returns the name that is most similar to a mistyped one, if one is similar enough: a third of
/// its characters may differ.
pub(super) fn similar<'a>(typed: &str, names: &'a [String]) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let longest = typed.chars().count();
    let distances = names
        .iter()
        .map(|name| (levenshtein(&typed, &name.to_lowercase()), name));
    let (nearest, name) = distances.min_by_key(|(distance, _)| *distance)?;
    let tolerated = longest.max(name.chars().count()) / 3;
    (nearest <= tolerated.max(1)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_similar_name_is_found() {
        let names = ["payments", "orders", "mails-eu"].map(str::to_owned);
        for (typed, meant) in [
            ("paymets", Some("payments")),
            ("Orders", Some("orders")),
            ("order", Some("orders")),
            ("mail-eu", Some("mails-eu")),
            ("bills", None),
            ("q", None),
            ("", None),
        ] {
            assert_eq!(similar(typed, &names), meant, "{typed}");
        }
        assert_eq!(similar("orders", &[]), None);
    }
}
