//! Text for a terminal: escaping, width, style, tables, JSON, differences and progress.

mod escape;
mod width;
mod window;
mod wrap;
mod command_line;
mod details;
mod style;
mod number;
mod json;
mod object;
mod table;
mod sparkline;
mod diff;
mod progress;

pub(crate) use command_line::{operand, quoted};
pub(crate) use details::Details;
pub(crate) use diff::diff;
pub(crate) use escape::{clean, one_line};
pub(crate) use json::{as_line, json_line, pretty};
pub(crate) use number::{counted, grouped};
pub(crate) use object::{Json, object};
pub(crate) use progress::Progress;
pub(crate) use sparkline::sparkline;
pub(crate) use style::Style;
pub(crate) use table::{Column, Table, table};
pub(crate) use width::cut;
#[cfg(test)]
pub(crate) use width::width;
pub(crate) use window::{SCREEN, columns_of_stdout};
pub(crate) use wrap::{wrapped, write_labelled};
