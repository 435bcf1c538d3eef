//! The audit log as people read it: one line per operation or redrive run, and filters as conditions. Pure.

use redrive::admin::AuditRecord;
use redrive::dlq::stored_conditions;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

/// A line of the audit log.
#[derive(Debug)]
pub(super) struct AuditLine<'r> {
    /// The newest record.
    pub(super) record: &'r AuditRecord,
    /// The letters or jobs of these records.
    pub(super) letters: u64,
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
pub(super) fn lines(records: &[AuditRecord]) -> Vec<AuditLine<'_>> {
    let mut lines: Vec<AuditLine<'_>> = Vec::new();
    for record in records {
        let about = about(record).unwrap_or_default();
        let whole = match about.get("run").and_then(Value::as_i64) {
            // The other actions on a run are decisions of an operator.
            Some(run) if record.verb == "redrive" => Whole::Run(run),
            Some(_) | None => Whole::Operation(record.operation),
        };
        match lines.iter_mut().find(|newer| newer.whole == whole) {
            Some(newer) if matches!(whole, Whole::Run(_)) => newer.letters += record.letters,
            Some(_) => {}
            None => lines.push(AuditLine {
                record,
                letters: record.total,
                whole,
            }),
        }
    }
    lines
}

/// The details of a record by name.
pub(super) fn about(record: &AuditRecord) -> Option<Map<String, Value>> {
    let about = record.about.as_deref().map(RawValue::get);
    about.and_then(|about| serde_json::from_str(about).ok())
}

/// The details, the conditions and the reason of a record.
pub(super) fn details(record: &AuditRecord) -> String {
    let about = about(record).unwrap_or_default();
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
    parts.join("  ")
}
