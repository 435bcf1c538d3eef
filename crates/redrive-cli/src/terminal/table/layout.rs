//! Places the columns of a table in a window. Pure.
//!
//! The last column holds the message and gets at least half of the window. Bars shrink first, then
//! texts. If that is not enough, the message moves to the next line; then the other columns
//! continue on further lines.

use super::Column;

/// The space between two columns.
const GAP: usize = 2;
/// The indentation of every line after the first.
pub(super) const INDENT: usize = 4;
/// The smallest width of bars. Narrower ones are left out.
const MIN_BARS: usize = 8;
/// The smallest width of a text that was wider.
const MIN_TEXT: usize = 6;

/// The columns of one line of a row: their places and widths.
pub(super) type Line = Vec<(usize, usize)>;

/// Returns the lines of each row of a table whose columns are this wide.
pub(super) fn layout(columns: &[Column], natural: &[usize], window: Option<usize>) -> Vec<Line> {
    let whole: Line = natural.iter().copied().enumerate().collect();
    let (Some(window), Some((last, others))) = (window, natural.split_last()) else {
        return vec![whole];
    };
    if total(natural) <= window {
        return vec![whole];
    }
    let message = match columns.last() {
        Some(Column::Text(_)) => (*last).min(window / 2),
        Some(Column::Name(_) | Column::Number(_) | Column::Word(_) | Column::Bars(_)) | None => {
            *last
        }
    };
    let room = window.saturating_sub(message + GAP);
    if let Some(widths) = shrunk(columns, others, room) {
        let mut line = line(&widths);
        let room = window.saturating_sub(total(&widths) + GAP);
        line.push((others.len(), (*last).min(room)));
        return vec![line];
    }
    let message = (others.len(), (*last).min(window - INDENT));
    match shrunk(columns, others, window) {
        Some(widths) => vec![line(&widths), vec![message]],
        None => packed(others, window)
            .into_iter()
            .chain([vec![message]])
            .collect(),
    }
}

/// The columns that are shown, with their widths.
fn line(widths: &[usize]) -> Line {
    let places = widths.iter().copied().enumerate();
    places.filter(|(_, width)| *width > 0).collect()
}

/// The width of a line with these columns.
fn total(widths: &[usize]) -> usize {
    let shown = widths.iter().filter(|width| **width > 0);
    let (columns, sum) = shown.fold((0, 0), |(columns, sum), width| (columns + 1, sum + width));
    sum + GAP * usize::saturating_sub(columns, 1)
}

/// Shrinks bars, then the widest text, until the columns fit. Zero: the column is left out.
fn shrunk(columns: &[Column], natural: &[usize], room: usize) -> Option<Vec<usize>> {
    let mut widths = natural.to_vec();
    let mut bars = columns.iter().take(widths.len());
    let bars = bars.position(|column| matches!(column, Column::Bars(_)));
    if let Some(bars) = bars {
        let excess = total(&widths).saturating_sub(room);
        widths[bars] = widths[bars].saturating_sub(excess).max(MIN_BARS);
    }
    while total(&widths) > room {
        let texts = widths.iter().copied().enumerate().filter(|(place, width)| {
            matches!(columns[*place], Column::Text(_) | Column::Name(_)) && *width > MIN_TEXT
        });
        match (texts.max_by_key(|(_, width)| *width), bars) {
            (Some((widest, _)), _) => widths[widest] -= 1,
            (None, Some(bars)) if widths[bars] > 0 => widths[bars] = 0,
            (None, _) => return None,
        }
    }
    Some(widths)
}

/// Distributes columns over lines. A column that is wider than the window is cut.
fn packed(natural: &[usize], window: usize) -> Vec<Line> {
    let mut lines: Vec<Line> = vec![Vec::new()];
    let mut taken = 0;
    for (place, width) in natural.iter().copied().enumerate() {
        let width = width.min(window - INDENT);
        if taken > 0 && taken + GAP + width > window {
            lines.push(Vec::new());
            taken = INDENT;
        } else if taken > 0 {
            taken += GAP;
        }
        taken += width;
        if let Some(line) = lines.last_mut() {
            line.push((place, width));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUPS: [Column; 5] = [
        Column::Number("GROUP"),
        Column::Text("QUEUE"),
        Column::Word("STATE"),
        Column::Bars("BY HOUR"),
        Column::Text("FAILURE"),
    ];

    fn widths(natural: &[usize], window: Option<usize>) -> Vec<Vec<usize>> {
        let lines = layout(&GROUPS, natural, window);
        let widths = lines
            .iter()
            .map(|line| line.iter().map(|(_, width)| *width));
        widths.map(Iterator::collect).collect()
    }

    #[test]
    fn the_message_gets_half_of_the_window_and_bars_shrink_first() {
        for (natural, window, lines) in [
            // A pipe, and a table that fits.
            (
                &[5, 6, 12, 24, 300][..],
                None,
                &[&[5, 6, 12, 24, 300][..]][..],
            ),
            (&[5, 6, 12, 24, 20], Some(80), &[&[5, 6, 12, 24, 20]]),
            // All of a short message, with fewer bars.
            (&[5, 6, 12, 24, 30], Some(80), &[&[5, 6, 12, 19, 30]]),
            (&[5, 6, 12, 24, 300], Some(200), &[&[5, 6, 12, 24, 145]]),
            (&[5, 30, 12, 24, 300], Some(200), &[&[5, 30, 12, 24, 121]]),
            (&[5, 6, 4, 24, 300], Some(80), &[&[5, 6, 4, 17, 40]]),
            // Texts shrink after the bars, and then the bars are left out.
            (&[5, 20, 12, 24, 300], Some(100), &[&[5, 17, 12, 8, 50]]),
            (&[5, 30, 12, 24, 300], Some(80), &[&[5, 7, 12, 8, 40]]),
            (&[5, 30, 12, 24, 300], Some(70), &[&[5, 6, 12, 41]]),
            // The message has its own line.
            (&[5, 30, 12, 24, 300], Some(50), &[&[5, 19, 12, 8], &[46]]),
        ] {
            assert_eq!(widths(natural, window), lines, "{natural:?} in {window:?}");
        }
    }

    #[test]
    fn columns_that_do_not_fit_continue_on_further_lines() {
        let numbers = [Column::Number("N"); 6];
        for (natural, window, lines) in [
            (
                &[10; 6][..],
                60,
                &[&[10, 10, 10, 10, 10][..], &[10][..]][..],
            ),
            (&[20; 6], 60, &[&[20, 20], &[20, 20], &[20], &[20]]),
            (&[90; 2], 60, &[&[56], &[56]]),
        ] {
            let placed = layout(&numbers[..natural.len()], natural, Some(window));
            for (number, line) in placed.iter().enumerate() {
                let widths: Vec<usize> = line.iter().map(|(_, width)| *width).collect();
                assert_eq!(widths, lines[number], "{natural:?}");
                let indent = if number == 0 { 0 } else { INDENT };
                assert!(total(&widths) + indent <= window, "{natural:?}");
            }
            assert_eq!(placed.len(), lines.len(), "{natural:?}");
        }
    }
}
