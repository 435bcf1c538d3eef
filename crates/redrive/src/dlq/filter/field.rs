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
    Integer,
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
        let keys: &[(&str, &'static str, &'static str)] = match self.kind {
            Kind::Text => &[("*", "=", "text")],
            Kind::Texts => &[("*", "=", "texts")],
            Kind::Part => &[("*", "~", "part")],
            Kind::Integer => &[("*", "=", "integer")],
            Kind::Integers => &[("*", "=", "integers")],
            Kind::Operation => &[("*", "=", "operation")],
            Kind::Words { .. } => &[("*", "=", "words")],
            Kind::Ids => &[
                ("*s", "=", "integers"),
                ("*_from", ">=", "from"),
                ("*_to", "<=", "to"),
                ("*_not", "!=", "not"),
            ],
            Kind::Range(..) => &[
                ("*_from", ">=", "from"),
                ("*_to", "<=", "to"),
                ("*_not", "!=", "not"),
            ],
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

    /// Returns the conditions of the field as an error message lists them: `age>, age<`.
    pub(crate) fn listed(&self) -> String {
        match self.kind {
            Kind::Payload => "payload.PATH=".to_owned(),
            Kind::Part => format!("{}~", self.name),
            Kind::Age | Kind::Moment => format!("{0}>, {0}<", self.name),
            Kind::Text
            | Kind::Texts
            | Kind::Integer
            | Kind::Integers
            | Kind::Operation
            | Kind::Words { .. }
            | Kind::Ids
            | Kind::Range(..) => format!("{}=", self.name),
        }
    }

    /// Reads the values of the keys that a condition sets.
    pub(crate) fn read(&self, comparison: Comparison, value: &str) -> Result<Values, Trouble> {
        let (name, operator) = (self.name, comparison.as_str());
        if let [key] = &*self.keys()
            && !matches!(self.kind, Kind::Payload)
            && key.sign != operator
        {
            let sign = key.sign;
            return Err(format!(
                "does not support `{operator}`; write `{name}{sign}`"
            ));
        }
        let ranged = |least, most| -> Result<Values, Trouble> {
            let bounds = range(comparison, value, least, most)?;
            Ok(bounds
                .into_iter()
                .map(|(end, bound)| (format!("{name}_{end}"), bound.into()))
                .collect())
        };
        let only = |key: &str, value: Value| Ok(vec![(key.to_owned(), value)]);
        match self.kind {
            Kind::Ids if comparison == Comparison::Equal && !value.contains("..") => {
                only("ids", numbers(value)?)
            }
            Kind::Ids => ranged(i64::MIN, i64::MAX),
            Kind::Range(least, most) => ranged(least, most),
            Kind::Age => {
                let key = self.bound(comparison, "")?;
                let (text, shown) = (one(value)?, value.escape_debug());
                let age = parse_duration(&text).map_err(|_| {
                    format!("compares with `{shown}`, which is not an age such as 90s, 5m or 1d12h")
                })?;
                only(&key, milliseconds(age).into())
            }
            Kind::Moment => {
                let key = self.bound(comparison, ", with a time")?;
                only(&key, read_moment(&one(value)?)?.into())
            }
            Kind::Text | Kind::Part => only(name, one(value)?.into()),
            Kind::Texts => only(name, several(value)?.into()),
            Kind::Integer | Kind::Operation => only(name, number(&one(value)?)?.into()),
            Kind::Integers => only(name, numbers(value)?),
            Kind::Words { read, any } => match (&*several(value)?, any) {
                ([word], Some(any)) if word == "any" => only(name, any().into()),
                (words, _) => {
                    let words: Result<Vec<&str>> = words.iter().map(|word| read(word)).collect();
                    let or_any = any.map_or("", |_| ", or any");
                    let words =
                        words.map_err(|error| format!("has an invalid value: {error}{or_any}"))?;
                    only(name, words.into())
                }
            },
            Kind::Payload => Err(
                "names no payload path; write payload.PATH, such as payload.customer.id=42"
                    .to_owned(),
            ),
        }
    }

    /// Returns the key of the greater or the lower values.
    fn bound(&self, comparison: Comparison, with: &str) -> Result<String, Trouble> {
        let [greater, lower] = &*self.keys() else {
            return Err("has no bounds".to_owned());
        };
        match comparison {
            Comparison::Greater | Comparison::AtLeast => Ok(greater.json.clone()),
            Comparison::Less | Comparison::AtMost => Ok(lower.json.clone()),
            Comparison::Equal | Comparison::NotEqual | Comparison::Contains => {
                Err(format!("only supports {0}> and {0}<{with}", self.name))
            }
        }
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

fn numbers(value: &str) -> Result<Value, Trouble> {
    several(value)?
        .iter()
        .map(|word| number(word).map(Value::from))
        .collect()
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
