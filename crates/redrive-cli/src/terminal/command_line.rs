//! Words of commands to type next, quoted for a shell.

use super::escape::clean;

/// Quotes a word for a shell. Dangerous characters, which a name in the database may contain, are
/// shown as escapes.
pub(crate) fn quoted(word: &str) -> String {
    let is_plain =
        |character: char| character.is_ascii_alphanumeric() || "_-./:@+,=%".contains(character);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", clean(word).replace('\'', r"'\''"))
}

/// Quotes a word that comes after the options of a command, and may begin with `-`.
pub(crate) fn operand(word: &str) -> String {
    match word.starts_with('-') {
        true => format!("-- {}", quoted(word)),
        false => quoted(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_for_a_shell() {
        for (word, as_typed) in [
            ("orders", "orders"),
            ("age>2h", "'age>2h'"),
            ("class=it's exit 1", r"'class=it'\''s exit 1'"),
            ("", "''"),
            ("$(rm)", "'$(rm)'"),
            ("a\u{202e}b", r"'a\u{202e}b'"),
        ] {
            assert_eq!(quoted(word), as_typed);
            assert_eq!(operand(word), as_typed);
        }
        assert_eq!(operand("-q"), "-- -q");
    }
}
