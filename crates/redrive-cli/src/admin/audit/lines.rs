//! The audit log as people read it: one line per operation or redrive run, and filters as conditions. Pure.

use redrive::admin::AuditRecord;
use redrive::dlq::stored_conditions;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use crate::time::rfc3339;

/// A line of the audit log.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct AuditLine {
    /// The id of the newest record.
    pub(super) id: i64,
    /// The time of the newest record, up to seconds.
    pub(super) at: String,
    pub(super) verb: String,
    /// The letters or jobs of these records.
    pub(super) letters: u64,
    pub(super) operator: String,
    /// The conditions, the details and the reason.
    pub(super) details: String,
    pub(super) whole: Whole,
}

/// What the records of one line have in common.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Whole {
    /// The steps of a redrive run.
    Run(i64),
    /// The batches of an operation, by its first record.
    Operation(i64),
}

/// Returns the lines of these records, newest first. The steps of a redrive run are one line, and so are the
/// batches of an operation.
pub(super) fn lines(records: &[AuditRecord]) -> Vec<AuditLine> {
    let mut lines: Vec<AuditLine> = Vec::new();
    for record in records {
        let line = AuditLine::of(record);
        match lines.iter_mut().find(|other| other.whole == line.whole) {
            Some(newer) => newer.letters += line.letters,
            None => lines.push(line),
        }
    }
    lines
}

impl AuditLine {
    fn of(record: &AuditRecord) -> AuditLine {
        let about = record.about.as_deref().map(RawValue::get);
        let about = about.and_then(|about| serde_json::from_str(about).ok());
        let mut about: Map<String, Value> = about.unwrap_or_default();
        let run = about.get("run").and_then(Value::as_i64);
        let first = about.remove("batch_of").and_then(|first| first.as_i64());
        let at = rfc3339(record.at);
        // What is known of an operation is no filter: its members have no operators and need no quotes.
        let about = about.iter().filter(|(_, value)| !value.is_null());
        let about = about.map(|(key, value)| match value.as_str() {
            Some(text) => format!("{key}={text}"),
            None => format!("{key}={value}"),
        });
        let about: Vec<String> = about.collect();
        let filter = record.filter.as_deref().map_or("{}", RawValue::get);
        let mut parts = vec![about.join(" "), stored_conditions(filter).join(" ")];
        parts.extend(record.reason.clone());
        parts.retain(|part| !part.is_empty());
        AuditLine {
            id: record.id,
            at: at.get(..19).unwrap_or(&at).to_owned(),
            verb: record.verb.clone(),
            letters: record.letters,
            operator: record.person.clone().unwrap_or_else(|| record.role.clone()),
            details: parts.join("  "),
            whole: match run {
                // The other actions on a run are decisions of an operator.
                Some(run) if record.verb == "redrive" => Whole::Run(run),
                Some(_) | None => Whole::Operation(first.unwrap_or(record.id)),
            },
        }
    }
}
