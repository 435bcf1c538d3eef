//! What almost every command uses.

pub(crate) use clap::Args;
pub(crate) use redrive::Database;
pub(crate) use serde::Serialize;
pub(crate) use serde_json::json;

pub(crate) use crate::context::{Context, Ending, More};
pub(crate) use crate::error::{Error, Result};
pub(crate) use crate::name::Me;
pub(crate) use crate::operator::{self, Reason};
pub(crate) use crate::optional::Optional;
pub(crate) use crate::selection::{Bulk, Confirm, Page, Selection, Words};
pub(crate) use crate::subcommands::{Plain, subcommands};
pub(crate) use crate::terminal::{
    Details, Json, Table, clean, counted, grouped, json_line, object, one_line, operand, pretty,
    quoted, table,
};
pub(crate) use crate::time::{self, ago, exact, rfc3339, short, with_stored_times};
