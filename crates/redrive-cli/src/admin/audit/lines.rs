//! The audit log as people read it: one line per operation or redrive run, and filters as conditions. Pure.

use redrive::admin::AuditRecord;
use serde_json::Value;
use serde_json::value::RawValue;

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
        let mut about = record.about.as_deref().map(value);
        let run = about.as_ref().and_then(|about| about["run"].as_i64());
        let first = about
            .as_mut()
            .and_then(Value::as_object_mut)
            .and_then(|about| about.remove("batch_of")?.as_i64());
        let at = rfc3339(record.at);
        let mut parts = Vec::new();
        parts.extend(about.as_ref().map(conditions));
        parts.extend(
            record
                .filter
                .as_deref()
                .map(|json| conditions(&value(json))),
        );
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

fn value(json: &RawValue) -> Value {
    serde_json::from_str(json.get()).unwrap_or_else(|_| Value::String(json.get().to_owned()))
}

/// Returns the members of an object as conditions: `group=5 state=open,quarantined`.
fn conditions(json: &Value) -> String {
    match json {
        Value::Object(members) => {
            let condition = |(key, value)| format!("{key}={}", words(value));
            members.iter().map(condition).collect::<Vec<_>>().join(" ")
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            words(json)
        }
    }
}

fn words(json: &Value) -> String {
    match json {
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(words).collect::<Vec<_>>().join(","),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => json.to_string(),
    }
}
