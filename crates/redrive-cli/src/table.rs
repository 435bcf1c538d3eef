//! Tables for people: aligned columns, two blanks apart, within 80 characters on a terminal.

use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};

use crate::error::Result;
use crate::render::{Looks, cut, one_line};

/// The widest table on a terminal.
const WIDTH: usize = 80;
/// The least that is left to the last column, however wide the others are.
const LAST: usize = 16;
/// The most that any other column gets.
const COLUMN: usize = 24;

/// A column: its heading, and to which side it is aligned.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Column {
    /// Text, to the left.
    Text(&'static str),
    /// Numbers, to the right.
    Number(&'static str),
}

impl Column {
    fn heading(self) -> &'static str {
        match self {
            Column::Text(heading) | Column::Number(heading) => heading,
        }
    }
}

/// A table. The text of its cells may be anything.
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

    /// Adds a row: a cell for each column.
    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows
            .push(cells.into_iter().map(|cell| one_line(&cell)).collect());
    }

    /// Writes it to stdout's writer; the last column is cut only when a terminal looks.
    pub(crate) fn write(&self, out: &mut dyn Write) -> Result<()> {
        let width = io::stdout().is_terminal().then_some(WIDTH);
        out.write_all(self.shown(Looks::of_stdout(), width).as_bytes())?;
        Ok(())
    }

    fn shown(&self, looks: Looks, width: Option<usize>) -> String {
        let widths = self.widths(width);
        let headings: Vec<&str> = self.columns.iter().map(|column| column.heading()).collect();
        let mut shown = looks.heading(&self.line(&headings, &widths));
        shown.push('\n');
        for row in &self.rows {
            let cells: Vec<&str> = row.iter().map(String::as_str).collect();
            shown.push_str(&self.line(&cells, &widths));
            shown.push('\n');
        }
        shown
    }

    fn line(&self, cells: &[&str], widths: &[usize]) -> String {
        let mut line = String::new();
        for ((column, cell), width) in self.columns.iter().zip(cells).zip(widths) {
            let cell = cut(cell, *width);
            if !line.is_empty() {
                line.push_str("  ");
            }
            // Writing to a String cannot fail.
            _ = match column {
                Column::Text(_) => write!(line, "{cell:<width$}"),
                Column::Number(_) => write!(line, "{cell:>width$}"),
            };
        }
        line.trim_end().to_owned()
    }

    fn widths(&self, within: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = self
            .columns
            .iter()
            .map(|column| column.heading().chars().count())
            .collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let Some(within) = within else { return widths };
        let Some((last, others)) = widths.split_last_mut() else {
            return widths;
        };
        for width in &mut *others {
            *width = (*width).min(COLUMN);
        }
        let taken: usize = others.iter().map(|width| width + 2).sum();
        *last = (*last).min(within.saturating_sub(taken).max(LAST));
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
    fn columns_are_aligned_and_cells_are_one_safe_line() {
        let shown = table().shown(Looks::plain(), Some(80));
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "  ID  QUEUE   ERROR");
        assert_eq!(lines[1], "   7  orders  line one line \\u{1b}[31mtwo");
        assert_eq!(lines[2].chars().count(), 80);
        assert!(lines[2].ends_with('…'));
    }

    #[test]
    fn nothing_is_cut_for_a_pipe() {
        assert!(
            table()
                .shown(Looks::plain(), None)
                .contains(&"x".repeat(200))
        );
    }
}
