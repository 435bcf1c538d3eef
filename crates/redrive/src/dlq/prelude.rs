//! What almost every operation of the dead letter queue and of operators uses.

pub(crate) use crate::db::row::{FromRow, column, row};
pub(crate) use crate::db::session::Session;
pub(crate) use crate::db::sql;
pub(crate) use crate::dlq::batches::{Taken, then};
pub(crate) use crate::dlq::filter::LetterFilter;
pub(crate) use crate::dlq::handle::{Dlq, Groups, Redactions, RetentionRules, Runs};
pub(crate) use crate::dlq::id::{GroupId, GroupRuleId, RedactionId, RunId};
pub(crate) use crate::dlq::state::LetterState;
pub(crate) use crate::error::{Error, Result};
pub(crate) use crate::job::death_cause::DeathCause;
pub(crate) use crate::job::error_report::clip;
pub(crate) use crate::job::job::JobId;
pub(crate) use crate::job::name;
pub(crate) use crate::job::operator::Operator;
pub(crate) use crate::job::payload::Json;
pub(crate) use crate::job::setters::setters;
pub(crate) use crate::job::words::words;
