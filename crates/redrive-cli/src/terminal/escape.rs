//! Escapes text of unknown origin, so that it cannot control the terminal.

use std::borrow::Cow;

/// Escapes every character that could move the cursor, change colors or reverse the direction of
/// writing. Line breaks and tabs stay.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_dangerous) {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_dangerous(character) {
            escaped.extend(character.escape_unicode());
        } else {
            escaped.push(character);
        }
    }
    Cow::Owned(escaped)
}

/// Escapes text and joins its lines and words with single spaces.
pub(crate) fn one_line(text: &str) -> String {
    clean(text).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Control characters except line breaks and tabs, and marks that reorder or hide text.
pub(super) fn is_dangerous(character: char) -> bool {
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
