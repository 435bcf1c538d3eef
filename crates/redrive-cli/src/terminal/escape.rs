//! Escapes text of unknown origin, so that it cannot control the terminal.

/// Escapes every character that could move the cursor, change colors or reverse the direction of
/// writing. Line breaks and tabs stay.
pub(crate) fn clean(text: &str) -> String {
    escaped(text, |character| character.escape_unicode().to_string())
}

/// Writes dangerous characters in another way.
pub(super) fn escaped(text: &str, escape: impl Fn(char) -> String) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match is_dangerous(character) {
            true => escaped.push_str(&escape(character)),
            false => escaped.push(character),
        }
    }
    escaped
}

/// Escapes text and joins its lines and words with single spaces.
pub(crate) fn one_line(text: &str) -> String {
    clean(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Control characters except line breaks and tabs, and marks that reorder or hide text.
fn is_dangerous(character: char) -> bool {
    match character {
        '\n' | '\t' => false,
        '\u{061c}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}' => true,
        '\u{e0000}'..='\u{e007f}' => true,
        character => character.is_control(),
    }
}
