//! The name that an operator probably meant. Pure.

/// Returns the name that is most similar to a mistyped one, if one is similar enough: a third of
/// its characters may differ.
pub(super) fn similar<'a>(typed: &str, names: &'a [String]) -> Option<&'a str> {
    let typed = typed.to_lowercase();
    let longest = typed.chars().count();
    let distances = names
        .iter()
        .map(|name| (distance(&typed, &name.to_lowercase()), name));
    let (nearest, name) = distances.min_by_key(|(distance, _)| *distance)?;
    let tolerated = longest.max(name.chars().count()) / 3;
    (nearest <= tolerated.max(1)).then_some(name)
}

/// How many characters must be inserted, removed or replaced.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (above, character) in from.chars().enumerate() {
        let mut diagonal = above;
        row[0] = above + 1;
        for (place, other) in to.iter().enumerate() {
            let replaced = diagonal + usize::from(character != *other);
            diagonal = row[place + 1];
            row[place + 1] = replaced.min(diagonal + 1).min(row[place] + 1);
        }
    }
    row[to.len()]
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

    #[test]
    fn the_distance_counts_changes() {
        for (from, to, changes) in [
            ("", "", 0),
            ("", "abc", 3),
            ("kitten", "sitting", 3),
            ("größe", "grösse", 2),
        ] {
            assert_eq!(distance(from, to), changes, "{from} {to}");
            assert_eq!(distance(to, from), changes, "{to} {from}");
        }
    }
}
