//! What almost every operation of the dead letter queue and of operators uses.

pub(crate) use crate::db::row::{FromRow, column, row};
pub(crate) use crate::db::sql;
pub(crate) use crate::dlq::filter::LetterFilter;
pub(crate) use crate::dlq::handle::Dlq;
pub(crate) use crate::dlq::state::LetterState;
pub(crate) use crate::error::{Error, Result};
pub(crate) use crate::job::job::JobId;
pub(crate) use crate::job::operator::Operator;
pub(crate) use crate::job::payload::Json;
pub(crate) use crate::job::words::words;
