//! Names and values, one below the other, and texts after a label, in lines that fit the window.

use std::fmt::Display;
use std::io::Write;

use super::escape::one_line;
use super::width::{width, wrap};
use super::window::columns_of_stdout;
use crate::error::Result;

/// Details of something that is shown.
#[derive(Default)]
pub(crate) struct Details(Vec<(&'static str, String)>);

impl Details {
    pub(crate) fn add(&mut self, name: &'static str, value: impl Display) -> &mut Details {
        self.some(name, Some(value))
    }

    /// Adds a value if there is one.
    pub(crate) fn some(&mut self, name: &'static str, value: Option<impl Display>) -> &mut Details {
        self.0.extend(value.map(|value| (name, value.to_string())));
        self
    }

    /// Writes a line for each. The names take this many columns.
    pub(crate) fn write(&self, columns: usize, out: &mut dyn Write) -> Result<()> {
        for (name, value) in &self.0 {
            let label = format!("  {name:<columns$} ");
            write_labelled(out, &label, &one_line(value))?;
        }
        Ok(())
    }
}

/// Writes a text after a label. A text that is wider than the window continues below its start.
pub(crate) fn write_labelled(out: &mut dyn Write, label: &str, text: &str) -> Result<()> {
    for line in lines(label, text, columns_of_stdout()) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn lines(label: &str, text: &str, columns: Option<usize>) -> Vec<String> {
    let Some(columns) = columns else {
        return vec![format!("{label}{text}")];
    };
    let indent = " ".repeat(width(label));
    let wrapped = wrap(text, columns.saturating_sub(width(label)));
    let lines = wrapped.iter().enumerate();
    let label = |number| if number == 0 { label } else { &*indent };
    lines
        .map(|(number, line)| format!("{}{line}", label(number)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_text_continues_below_its_start() {
        assert_eq!(
            lines("  by  ", "one two three", Some(13)),
            ["  by  one two", "      three"]
        );
        assert_eq!(lines("  by  ", "one two", None), ["  by  one two"]);
        assert_eq!(lines("  by  ", "", Some(40)), ["  by  "]);
    }
}
