//! Tables with aligned columns, cut to fit the window.

use std::io::Write;

use super::escape::one_line;
use super::style::Style;
use super::width::{cut, width};
use super::window::columns_of_stdout;
use crate::error::Result;

/// The space between two columns.
const GAP: &str = "  ";
/// The smallest width of a text that was wider, and of a name.
const MIN_TEXT: usize = 6;
const MIN_NAME: usize = 12;
/// The smallest width of bars. If that is too much, their column is left out.
const MIN_BARS: usize = 8;

/// How the cells of a column are aligned and cut.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Column {
    /// Aligned to the left. Cut if the window is too narrow.
    Text,
    /// A name, aligned to the left. Its start is cut, because similar names differ at the end.
    Name,
    /// One of a few words, aligned to the left and never cut.
    Word,
    /// Aligned to the right and never cut.
    Number,
    /// Bars, the newest on the right. The oldest are left out if the window is too narrow.
    Bars,
}

impl Column {
    /// The width to which it may shrink, 0: it is left out; `None`: it is never cut.
    fn least(self) -> Option<usize> {
        match self {
            Column::Text => Some(MIN_TEXT),
            Column::Name => Some(MIN_NAME),
            Column::Bars => Some(0),
            Column::Word | Column::Number => None,
        }
    }

    /// A cell that takes exactly this many columns.
    fn cell(self, text: &str, columns: usize) -> String {
        let text = match self {
            Column::Bars => cut_start(text, columns).unwrap_or_else(|| text.to_owned()),
            Column::Name => match cut_start(text, columns.saturating_sub(1)) {
                Some(end) if width(text) > columns => format!("…{end}"),
                _ => text.to_owned(),
            },
            Column::Text | Column::Word | Column::Number => cut(text, columns),
        };
        let padding = " ".repeat(columns.saturating_sub(width(&text)));
        match self {
            Column::Text | Column::Name | Column::Word => text + &padding,
            Column::Number | Column::Bars => padding + &text,
        }
    }
}

/// The end of a text that takes at most this many columns; `None`: the whole text fits.
fn cut_start(text: &str, columns: usize) -> Option<String> {
    if width(text) <= columns {
        return None;
    }
    let mut end = text.chars();
    while width(end.as_str()) > columns {
        end.next();
    }
    Some(end.as_str().to_owned())
}

/// A table. Its cells are escaped.
#[derive(Debug, Default)]
pub(crate) struct Table {
    columns: Vec<Column>,
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn column(&mut self, column: Column, heading: &'static str) {
        self.columns.push(column);
        self.headings.push(heading);
    }

    /// Adds a row with one cell per column.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows
            .push(cells.into_iter().map(|cell| one_line(&cell)).collect());
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Writes the table. Cells are cut only to fit a window.
    pub(crate) fn write(&self, out: &mut dyn Write) -> Result<()> {
        self.write_in(columns_of_stdout(), out)
    }

    /// Writes the table in so many columns.
    pub(crate) fn write_in(&self, columns: Option<usize>, out: &mut dyn Write) -> Result<()> {
        Ok(out.write_all(self.render(Style::of_stdout(), columns).as_bytes())?)
    }

    fn render(&self, style: Style, window: Option<usize>) -> String {
        let widths = fitted(&self.columns, self.natural_widths(), window);
        let headings = self.headings.iter().copied();
        let mut text = style.heading(&self.line(&widths, headings)) + "\n";
        for row in &self.rows {
            let cells = row.iter().map(String::as_str);
            text.extend([&*self.line(&widths, cells), "\n"]);
        }
        text
    }

    fn line<'c>(&self, widths: &[usize], cells: impl Iterator<Item = &'c str>) -> String {
        let columns = self.columns.iter().zip(widths).zip(cells);
        let shown = columns.filter(|((_, width), _)| **width > 0);
        let cells = shown.map(|((column, width), cell)| column.cell(cell, *width));
        let line = cells.collect::<Vec<_>>().join(GAP);
        line.trim_end().to_owned()
    }

    /// The widths of the headings and of the widest cells.
    fn natural_widths(&self) -> Vec<usize> {
        let headings = self.headings.iter();
        let mut widths: Vec<usize> = headings.map(|heading| width(heading)).collect();
        for row in &self.rows {
            for (columns, cell) in widths.iter_mut().zip(row) {
                *columns = (*columns).max(width(cell));
            }
        }
        widths
    }
}

/// Returns the widths of columns in a window: the last one, which holds the message, shrinks to half of the window, then
/// bars until they are left out, then the widest text, and then the message. Words and numbers stay, and may exceed the
/// window. Pure.
fn fitted(columns: &[Column], mut widths: Vec<usize>, window: Option<usize>) -> Vec<usize> {
    let (Some(window), Some(last)) = (window, widths.len().checked_sub(1)) else {
        return widths;
    };
    let total = |widths: &[usize]| {
        let shown = widths.iter().filter(|width| **width > 0);
        shown.map(|width| width + GAP.len()).sum::<usize>()
    };
    let message = widths[last];
    while total(&widths) > window + GAP.len() {
        let can_shrink = |place: &usize| {
            let least = columns[*place].least();
            least.is_some_and(|least| widths[*place] > least)
        };
        let order = |place: &usize| match columns[*place] {
            _ if *place == last && widths[last] > window / 2 => (3, 0),
            Column::Bars => (2, 0),
            _ if *place == last => (0, 0),
            Column::Text | Column::Name | Column::Word | Column::Number => (1, widths[*place]),
        };
        let next = (0..=last).filter(can_shrink).max_by_key(order);
        let Some(next) = next else { break };
        let is_least = matches!(columns[next], Column::Bars) && widths[next] <= MIN_BARS;
        widths[next] = if is_least { 0 } else { widths[next] - 1 };
    }
    // What the bars leave.
    let free = (window + GAP.len()).saturating_sub(total(&widths));
    widths[last] = message.min(widths[last] + free);
    widths
}

/// A table of items: `table!(item in items => { Word "STATE" => item.state, })`. A column may have a
/// condition: `Word "STATE" if has_states`.
macro_rules! table {
    ($item:pat in $items:expr => {
        $($column:ident $heading:tt $(if $shown:expr)? => $cell:expr,)*
    }) => {{
        use $crate::terminal::{Column, Table};
        let mut table = Table::default();
        $($(if $shown)? { table.column(Column::$column, $heading); })*
        for $item in $items {
            let mut cells: Vec<String> = Vec::new();
            $($(if $shown)? { cells.push(ToString::to_string(&$cell)); })*
            table.row(cells);
        }
        table
    }};
}
pub(crate) use table;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_and_cells_are_escaped() {
        let long = "x".repeat(200);
        let odd = "line one\nline \u{1b}[31mtwo";
        let rows = [("7", "orders", odd), ("1234", "q", &*long)];
        let table = table!((id, queue, error) in rows => {
            Number "ID" => id,
            Text "QUEUE" => queue,
            Text "ERROR" => error,
        });
        let text = table.render(Style::plain(), Some(80));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "  ID  QUEUE   ERROR");
        assert_eq!(lines[1], "   7  orders  line one line \\u{1b}[31mtwo");
        assert_eq!(lines[2].chars().count(), 80);
        assert!(lines[2].ends_with('…'));
        // Cells of a pipe are not cut.
        assert!(table.render(Style::plain(), None).contains(&long));
    }

    #[test]
    fn a_cell_takes_its_columns_and_names_and_bars_are_cut_at_their_start() {
        for (column, text, columns, cell) in [
            (Column::Name, "shop.step_07", 12, "shop.step_07"),
            (Column::Name, "shop.step_07", 6, "…ep_07"),
            (Column::Name, "step", 6, "step  "),
            (Column::Name, "注文処理", 6, "…処理 "),
            (Column::Text, "😀 ok", 8, "😀 ok   "),
            (Column::Text, "語語語語", 6, "語語… "),
            (Column::Number, "注文", 6, "  注文"),
            (Column::Bars, "····789", 5, "··789"),
        ] {
            assert_eq!(column.cell(text, columns), cell, "{text}");
        }
    }

    #[test]
    fn the_message_gets_half_of_the_window_and_bars_shrink_first() {
        let columns = [
            Column::Number,
            Column::Text,
            Column::Word,
            Column::Bars,
            Column::Text,
        ];
        for (natural, window, widths) in [
            // A pipe, and a table that fits.
            ([5, 6, 12, 24, 300], None, [5, 6, 12, 24, 300]),
            ([5, 6, 12, 24, 20], Some(80), [5, 6, 12, 24, 20]),
            // All of a short message, with fewer bars.
            ([5, 6, 12, 24, 30], Some(80), [5, 6, 12, 19, 30]),
            ([5, 6, 12, 24, 300], Some(200), [5, 6, 12, 24, 145]),
            ([5, 6, 4, 24, 300], Some(80), [5, 6, 4, 17, 40]),
            // Texts shrink after the bars, and then the message.
            ([5, 20, 12, 24, 300], Some(100), [5, 20, 12, 0, 57]),
            ([5, 30, 12, 24, 300], Some(80), [5, 17, 12, 0, 40]),
            ([5, 30, 12, 24, 300], Some(50), [5, 6, 12, 0, 21]),
            // Numbers and words are not cut.
            ([5, 30, 12, 24, 300], Some(20), [5, 6, 12, 0, 6]),
        ] {
            let fitted = fitted(&columns, natural.to_vec(), window);
            assert_eq!(fitted, widths, "{natural:?} in {window:?}");
        }
    }
}
