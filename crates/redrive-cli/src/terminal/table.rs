//! Tables with aligned columns. On a terminal they are as wide as the terminal at most.

use std::io::{self, IsTerminal, Write};

use terminal_size::{Width, terminal_size};

use super::escape::one_line;
use super::style::Style;
use super::width::{cut, width};
use crate::error::Result;

/// The width of a terminal that does not tell it.
const DEFAULT_WIDTH: usize = 80;
/// The smallest width of the last column.
const MIN_LAST_COLUMN: usize = 16;
/// The largest width of any other column on a terminal.
const MAX_COLUMN: usize = 24;

/// The heading of a column, and its alignment.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Column {
    /// Aligned to the left.
    Text(&'static str),
    /// Aligned to the right.
    Number(&'static str),
}

impl Column {
    fn heading(self) -> &'static str {
        match self {
            Column::Text(heading) | Column::Number(heading) => heading,
        }
    }
}

/// A table. Its cells are escaped.
#[derive(Debug)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table.
    pub(crate) fn new(columns: impl Into<Vec<Column>>) -> Table {
        Table {
            columns: columns.into(),
            rows: Vec::new(),
        }
    }

    /// Adds a row with one cell per column.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows
            .push(cells.into_iter().map(|cell| one_line(&cell)).collect());
    }

    /// Writes the table. Cells are cut only if stdout is a terminal.
    pub(crate) fn write(&self, out: &mut dyn Write) -> Result<()> {
        let max_width = io::stdout()
            .is_terminal()
            .then(|| terminal_size().map_or(DEFAULT_WIDTH, |(Width(columns), _)| columns.into()));
        out.write_all(self.render(Style::of_stdout(), max_width).as_bytes())?;
        Ok(())
    }

    fn render(&self, style: Style, max_width: Option<usize>) -> String {
        let widths = self.widths(max_width);
        let headings: Vec<&str> = self.columns.iter().map(|column| column.heading()).collect();
        let mut text = style.heading(&self.line(&headings, &widths));
        text.push('\n');
        for row in &self.rows {
            let cells: Vec<&str> = row.iter().map(String::as_str).collect();
            text.push_str(&self.line(&cells, &widths));
            text.push('\n');
        }
        text
    }

    fn line(&self, cells: &[&str], widths: &[usize]) -> String {
        let mut line = String::new();
        for (index, ((column, cell), columns)) in
            self.columns.iter().zip(cells).zip(widths).enumerate()
        {
            if index > 0 {
                line.push_str("  ");
            }
            let cell = cut(cell, *columns);
            let padding = " ".repeat(columns.saturating_sub(width(&cell)));
            match column {
                Column::Text(_) => line.extend([cell, padding]),
                Column::Number(_) => line.extend([padding, cell]),
            }
        }
        line.trim_end().to_owned()
    }

    fn widths(&self, max_width: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = self
            .columns
            .iter()
            .map(|column| width(column.heading()))
            .collect();
        for row in &self.rows {
            for (columns, cell) in widths.iter_mut().zip(row) {
                *columns = (*columns).max(width(cell));
            }
        }
        let (Some(max_width), Some((last, others))) = (max_width, widths.split_last_mut()) else {
            return widths;
        };
        for columns in &mut *others {
            *columns = (*columns).min(MAX_COLUMN);
        }
        let taken: usize = others.iter().map(|columns| columns + 2).sum();
        *last = (*last).min(max_width.saturating_sub(taken).max(MIN_LAST_COLUMN));
        widths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new([
            Column::Number("ID"),
            Column::Text("QUEUE"),
            Column::Text("ERROR"),
        ]);
        table.row([
            "7".to_owned(),
            "orders".to_owned(),
            "line one\nline \u{1b}[31mtwo".to_owned(),
        ]);
        table.row(["1234".to_owned(), "q".to_owned(), "x".repeat(200)]);
        table
    }

    #[test]
    fn columns_are_aligned_and_cells_are_escaped() {
        let text = table().render(Style::plain(), Some(80));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "  ID  QUEUE   ERROR");
        assert_eq!(lines[1], "   7  orders  line one line \\u{1b}[31mtwo");
        assert_eq!(lines[2].chars().count(), 80);
        assert!(lines[2].ends_with('…'));
    }

    #[test]
    fn cells_of_a_pipe_are_not_cut() {
        assert!(
            table()
                .render(Style::plain(), None)
                .contains(&"x".repeat(200))
        );
    }

    #[test]
    fn wide_characters_take_two_columns() {
        let mut table = Table::new([
            Column::Text("QUEUE"),
            Column::Number("N"),
            Column::Text("X"),
        ]);
        for queue in ["注文", "😀 ok", "orders", "größe"] {
            table.row([queue.to_owned(), "1".to_owned(), "語".repeat(40)]);
        }
        let text = table.render(Style::plain(), Some(80));
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "QUEUE   N  X");
        assert!(lines[1].starts_with("注文    1  語"), "{text}");
        assert!(lines[2].starts_with("😀 ok   1  語"), "{text}");
        assert!(lines[3].starts_with("orders  1  語"), "{text}");
        assert!(lines.iter().all(|line| width(line) <= 80), "{text}");
        assert!(lines[1].ends_with('…'), "{text}");
    }
}
