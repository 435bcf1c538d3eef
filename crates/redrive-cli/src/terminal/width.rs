//! Measures, cuts and wraps text by terminal columns. CJK characters and emoji take two columns.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

/// The number of columns that a text takes.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// Cuts a text to a number of columns and ends it with an ellipsis.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if text.width() <= columns {
        return text.to_owned();
    }
    let available = columns.saturating_sub(1);
    let mut taken = 0;
    let mut cut: String = text
        .chars()
        .take_while(|character| {
            taken += character.width().unwrap_or(0);
            taken <= available
        })
        .collect();
    // A variation selector can widen the character before it.
    while cut.width() > available {
        cut.pop();
    }
    cut.push('…');
    cut
}

/// Wraps a text at spaces. A longer word continues on the next line, so that nothing is lost.
pub(crate) fn wrap(text: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= columns => {
                line.push(' ');
                line.push_str(word);
                continue;
            }
            Some(_) | None => lines.push(String::new()),
        }
        for character in word.chars() {
            // Measured as a whole, because a variation selector can widen the character before it.
            let fits = |line: &str| format!("{line}{character}").width() <= columns;
            match lines.last_mut() {
                Some(line) if line.is_empty() || fits(line) => line.push(character),
                Some(_) | None => lines.push(character.to_string()),
            }
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_by_columns() {
        assert_eq!(cut("größer", 6), "größer");
        assert_eq!(cut("größer", 4), "grö…");
        assert_eq!(cut("日本語", 6), "日本語");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("😀😀", 3), "😀…");
        assert_eq!(cut("abc", 0), "…");
    }

    #[test]
    fn lines_are_wrapped_at_spaces_and_none_is_too_wide() {
        assert_eq!(wrap("one two three", 7), ["one two", "three"]);
        assert_eq!(wrap("a 123456 one", 5), ["a", "12345", "6 one"]);
        assert_eq!(wrap("日本語", 5), ["日本", "語"]);
        assert_eq!(wrap("", 5), [""]);
    }
}
