//! What a field of a filter takes: its keys in JSON, its values as text, and how both are read.

use std::time::Duration;

use serde_json::Value;

use crate::dlq::filter::moment::{self, parse_moment};
use crate::dlq::filter::payload::Comparison;
use crate::dlq::filter::value::{Trouble, number, one, several, written};
use crate::error::Error;
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
    /// Some numbers, whose key in JSON this is, or a range.
    Range(&'static str),
    /// The id of an audit record.
    Operation,
    /// Some of these words, or `any` of those.
    Words(&'static [&'static str], &'static [&'static str]),
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

impl Field {
    /// Returns the keys that the field sets, in the order in which they are written.
    pub(crate) fn keys(&self) -> Vec<Key> {
        let keys = match self.kind {
            Kind::Text => vec![("*", "=", "text")],
            Kind::Texts => vec![("*", "=", "texts")],
            Kind::Part => vec![("*", "~", "part")],
            Kind::Integers => vec![("*", "=", "integers")],
            Kind::Range(list) => vec![
                (list, "=", "integers"),
                ("*_from", ">=", "from"),
                ("*_to", "<=", "to"),
                ("*_not", "!=", "not"),
            ],
            Kind::Operation => vec![("*", "=", "operation")],
            Kind::Words(..) => vec![("*", "=", "words")],
            Kind::Age => vec![
                ("older_than_ms", ">", "older"),
                ("newer_than_ms", "<", "newer"),
            ],
            Kind::Moment => vec![("*_from", ">=", "since"), ("*_to", "<", "before")],
            Kind::Payload => vec![("*", " ", "path")],
        };
        let key = |(json, sign, takes): (&str, _, _)| Key {
            json: json.replace('*', self.name),
            sign,
            takes,
        };
        keys.into_iter().map(key).collect()
    }

    /// Reads the values of the keys that a condition sets.
    pub(crate) fn read(
        &self,
        comparison: Comparison,
        text: &str,
    ) -> Result<Vec<(String, Value)>, Trouble> {
        if let (Kind::Range(_), Comparison::Equal, Some((from, to))) =
            (self.kind, comparison, text.split_once(".."))
        {
            let from = self.read(Comparison::AtLeast, from)?;
            let range = [from, self.read(Comparison::AtMost, to)?].concat();
            return match range[0].1.as_i64() <= range[1].1.as_i64() {
                true => Ok(range),
                false => Err("has a range that ends before it begins".to_owned()),
            };
        }
        let (keys, operator) = (self.keys(), comparison.as_str());
        // A moment is exact enough for `<` and `<=` to be the same.
        let Some(key) = keys.iter().find(|key| key.sign[..1] == operator[..1]) else {
            let known = |key: &Key| format!("`{}{}`", self.name, key.sign);
            let write: Vec<String> = keys.iter().map(known).collect();
            let write = write.join(" or ");
            return Err(format!("does not support `{operator}`; write {write}"));
        };
        Ok(vec![(key.json.clone(), self.value(comparison, text)?)])
    }

    /// Reads the value of a key.
    fn value(&self, comparison: Comparison, text: &str) -> Result<Value, Trouble> {
        let wrong = |error: Error| format!("compares with `{}`: {error}", text.escape_debug());
        Ok(match (self.kind, comparison) {
            (Kind::Text | Kind::Part | Kind::Payload, _) => one(text)?.into(),
            (Kind::Texts, _) => several(text)?.into(),
            (Kind::Operation, _) | (Kind::Range(_), Comparison::AtLeast | Comparison::AtMost) => {
                number(&one(text)?)?.into()
            }
            (Kind::Range(_), Comparison::Greater) => number(&one(text)?)?.saturating_add(1).into(),
            (Kind::Range(_), Comparison::Less) => number(&one(text)?)?.saturating_sub(1).into(),
            (Kind::Integers | Kind::Range(_), _) => {
                let numbers = several(text)?;
                let numbers = numbers.iter().map(|word| number(word));
                numbers.collect::<Result<Value, Trouble>>()?
            }
            (Kind::Words(all, any), _) => match &*several(text)? {
                [word] if word == "any" => any.into(),
                words => match words.iter().find(|word| !all.contains(&&***word)) {
                    None => words.into(),
                    Some(word) => {
                        let (shown, known) = (word.escape_debug(), all.join(", "));
                        return Err(format!(
                            "has no {} `{shown}`; expected one of {known}, or any",
                            self.name
                        ));
                    }
                },
            },
            (Kind::Age, _) => {
                let age = parse_duration(&one(text)?).map(milliseconds);
                age.map_err(wrong)?.into()
            }
            (Kind::Moment, _) => {
                let moment = parse_moment(&one(text)?).map(moment::written);
                let or_age = "; for an age, write age>2h";
                moment.map_err(|error| wrong(error) + or_age)?.into()
            }
        })
    }

    /// Writes the value of a key as in a condition.
    pub(crate) fn written(&self, value: &Value) -> String {
        match (self.kind, value) {
            (Kind::Words(_, any), value) if *value == Value::from(any) => "any".to_owned(),
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
