//! Measures and cuts text by terminal columns. CJK characters and emoji take two columns.

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
