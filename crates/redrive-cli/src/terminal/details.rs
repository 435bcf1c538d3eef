//! Names and values, one below the other.

use std::fmt::Display;
use std::io::Write;

use super::escape::one_line;
use super::wrap::write_labelled;
use crate::error::Result;

/// Details of something that is shown.
#[derive(Default)]
pub(crate) struct Details(Vec<(String, String)>);

impl Details {
    pub(crate) fn add(&mut self, name: impl Into<String>, value: impl Display) -> &mut Details {
        self.some(name, Some(value))
    }

    /// Adds a value if there is one.
    pub(crate) fn some(
        &mut self,
        name: impl Into<String>,
        value: Option<impl Display>,
    ) -> &mut Details {
        self.0
            .extend(value.map(|value| (name.into(), value.to_string())));
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
