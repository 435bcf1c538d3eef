//! What a field of a filter takes: its keys in JSON, its values as text, and how both are read.

use std::time::Duration;

use serde_json::Value;

use crate::dlq::filter::moment::moment;
use crate::dlq::filter::payload::Comparison;
use crate::dlq::filter::value::{Trouble, number, one, range, several, written};
use crate::error::Result;
use crate::job::duration::{format_duration, parse_duration};
use crate::job::milliseconds::milliseconds;

/// A field of the filters of letters, of jobs, or of both.
pub(crate) struct Field {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    /// The subjects that have the field, and the column that it compares.
    pub(crate) columns: &'static [(&'static str, &'static str)],
    pub(crate) example: &'static str,
    pub(crate) selects: &'static str,
}

/// What a field takes.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// One text.
    Text,
    /// One text, or several.
    Texts,
    /// A text that the column contains.
    Part,
    Integers,
    /// The id of an audit record.
    Operation,
    /// Some of the words that `read` accepts; `any`: all of them.
    Words {
        read: fn(&str) -> Result<&'static str>,
        any: Option<fn() -> Vec<&'static str>>,
    },
    /// Some numbers, or a range.
    Ids,
    /// A range of numbers, within these.
    Range(i64, i64),
    Age,
    Moment,
    /// Conditions on values of the payload.
    Payload,
}

/// A key of a filter in JSON.
pub(crate) struct Key {
    pub(crate) json: String,
    /// The operator that sets it.
    pub(crate) sign: &'static str,
    /// What the database does with its value; see `redrive.filter_condition`.
    pub(crate) takes: &'static str,
}

/// The values of some keys.
type Values = Vec<(String, Value)>;

impl Field {
    /// Returns the keys that the field sets, in the order in which they are written.
    pub(crate) fn keys(&self) -> Vec<Key> {
        let ranged = [
            ("*s", "=", "integers"),
            ("*_from", ">=", "from"),
            ("*_to", "<=", "to"),
            ("*_not", "!=", "not"),
        ];
        let keys: &[(&str, &'static str, &'static str)] = match self.kind {
            Kind::Text => &[("*", "=", "text")],
            Kind::Texts => &[("*", "=", "texts")],
            Kind::Part => &[("*", "~", "part")],
            Kind::Integers => &[("*", "=", "integers")],
            Kind::Operation => &[("*", "=", "operation")],
            Kind::Words { .. } => &[("*", "=", "words")],
            Kind::Ids => &ranged,
            Kind::Range(..) => &ranged[1..],
            Kind::Age => &[
                ("older_than_ms", ">", "older"),
                ("newer_than_ms", "<", "newer"),
            ],
            Kind::Moment => &[("*_from", ">=", "since"), ("*_to", "<", "before")],
            Kind::Payload => &[("*", " ", "path")],
        };
        let key = |&(json, sign, takes): &(&str, _, _)| Key {
            json: json.replace('*', self.name),
            sign,
            takes,
        };
        keys.iter().map(key).collect()
    }

    /// Reads the values of the keys that a condition sets.
    pub(crate) fn read(&self, comparison: Comparison, value: &str) -> Result<Values, Trouble> {
        let is_list = comparison == Comparison::Equal && !value.contains("..");
        let ends = if let Kind::Range(least, most) = self.kind {
            Some((least, most))
        } else {
            (matches!(self.kind, Kind::Ids) && !is_list).then_some((i64::MIN, i64::MAX))
        };
        if let Some((least, most)) = ends {
            let bounds = range(comparison, value, least, most)?.into_iter();
            let key = |(end, bound)| (format!("{}_{end}", self.name), Value::from(bound));
            return Ok(bounds.map(key).collect());
        }
        if matches!(self.kind, Kind::Payload) {
            let path = "names no payload path; write payload.PATH, such as payload.customer.id=42";
            return Err(path.to_owned());
        }
        let (keys, operator) = (self.keys(), comparison.as_str());
        // A moment is exact enough for `<` and `<=` to be the same.
        let Some(key) = keys.iter().find(|key| key.sign[..1] == operator[..1]) else {
            let known = |key: &Key| format!("`{}{}`", self.name, key.sign);
            let write: Vec<String> = keys.iter().map(known).collect();
            let write = write.join(" or ");
            return Err(format!("does not support `{operator}`; write {write}"));
        };
        Ok(vec![(key.json.clone(), self.value(value)?)])
    }

    /// Reads the value of a key.
    fn value(&self, text: &str) -> Result<Value, Trouble> {
        Ok(match self.kind {
            Kind::Text | Kind::Part => one(text)?.into(),
            Kind::Texts => several(text)?.into(),
            Kind::Operation => number(&one(text)?)?.into(),
            Kind::Age => {
                let age = parse_duration(&one(text)?).map_err(|_| {
                    let shown = text.escape_debug();
                    format!("compares with `{shown}`, which is not an age such as 90s, 5m or 1d12h")
                })?;
                milliseconds(age).into()
            }
            Kind::Moment => read_moment(&one(text)?)?.into(),
            Kind::Words { read, any } => match (&*several(text)?, any) {
                ([word], Some(any)) if word == "any" => any().into(),
                (words, _) => {
                    let words: Result<Vec<&str>> = words.iter().map(|word| read(word)).collect();
                    let or_any = any.map_or("", |_| ", or any");
                    words
                        .map_err(|error| format!("has an invalid value: {error}{or_any}"))?
                        .into()
                }
            },
            Kind::Integers | Kind::Ids | Kind::Range(..) | Kind::Payload => {
                let numbers = several(text)?;
                let numbers = numbers.iter().map(|word| number(word));
                numbers.collect::<Result<Value, Trouble>>()?
            }
        })
    }

    /// Writes the value of a key as in a condition.
    pub(crate) fn written(&self, value: &Value) -> String {
        match (self.kind, value) {
            (Kind::Words { any: Some(any), .. }, value) if *value == Value::from(any()) => {
                "any".to_owned()
            }
            (Kind::Age, Value::Number(age)) => {
                format_duration(Duration::from_millis(age.as_u64().unwrap_or_default()))
            }
            (_, Value::Array(values)) => {
                let values: Vec<String> = values.iter().map(|value| self.written(value)).collect();
                values.join(",")
            }
            (Kind::Payload, Value::String(predicate)) => predicate.clone(),
            (_, Value::String(text)) => written(text),
            (_, other) => other.to_string(),
        }
    }
}

/// Reads a time. An age is refused: `died>2h` could mean more than two hours ago or later than
/// two hours ago.
fn read_moment(text: &str) -> Result<String, Trouble> {
    let shown = text.escape_debug();
    if parse_duration(text).is_ok() {
        return Err(format!(
            "compares a time with an age; write age>{shown} for letters that died longer ago, age<{shown} for later ones"
        ));
    }
    moment(text).ok_or_else(|| {
        format!(
            "compares with `{shown}`, which is not a time such as 2026-11-20 or 2026-11-20T10:00Z"
        )
    })
}
