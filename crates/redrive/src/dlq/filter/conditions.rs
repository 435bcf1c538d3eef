//! The conditions of a filter as text.

use serde_json::{Map, Value};

use crate::dlq::filter::field::Field;
use crate::dlq::filter::fields::{fields, listed};
use crate::dlq::filter::syntax::{parts, payload, payload_path};
use crate::dlq::filter::value::Trouble;
use crate::dlq::filter::{Fields, Filter, LetterFields, LetterFilter};

/// How many values of a stored condition are shown.
const SHOWN: usize = 5;

impl<F: Fields> Filter<F> {
    /// Parses one condition and adds it.
    pub(super) fn read(&mut self, condition: &str) -> Result<(), Trouble> {
        let known = listed(F::OF);
        let (key, comparison, value) = parts(condition, &known)?;
        if let Some(path) = payload_path(key) {
            self.payload.push(payload(path, comparison, value)?);
            return Ok(());
        }
        let field = fields(F::OF)
            .find(|field| field.name == key)
            .ok_or_else(|| {
                let what = if key.is_empty() {
                    "names no field"
                } else {
                    "has an unknown field"
                };
                format!("{what}; expected one of {known}")
            })?;
        for (key, value) in field.read(comparison, value)? {
            if self.values.insert(key, value).is_some() {
                return Err(format!(
                    "repeats `{}`; separate several values with commas",
                    field.name
                ));
            }
        }
        Ok(())
    }

    /// Returns the conditions, each as text. Leaves out `after` and the limit.
    pub fn conditions(&self) -> Vec<String> {
        let mut conditions = Vec::new();
        for field in fields(F::OF) {
            for key in field.keys() {
                let value = self.values.get(&key.json).map(|value| field.written(value));
                conditions.extend(value.map(|value| format!("{}{}{value}", field.name, key.sign)));
            }
        }
        conditions.extend(self.payload.iter().map(ToString::to_string));
        conditions
    }
}

/// Returns the conditions of a filter of letters that a run, a policy or the audit stores as JSON, as text for people: of
/// a long list the first values, and the predicate on the payload as it is.
pub fn stored_conditions(filter: &str) -> Vec<String> {
    let mut values: Map<String, Value> = serde_json::from_str(filter).unwrap_or_default();
    for value in values.values_mut() {
        if let Value::Array(values) = value
            && values.len() > SHOWN
        {
            values.truncate(SHOWN);
            values.push("...".into());
        }
    }
    let stored = LetterFilter {
        values,
        ..LetterFilter::new()
    };
    let mut conditions = stored.conditions();
    let known: Vec<String> = fields(LetterFields::OF)
        .flat_map(Field::keys)
        .map(|key| key.json)
        .collect();
    let unknown = stored.values.iter().filter(|(key, _)| !known.contains(key));
    conditions.extend(unknown.map(|(key, value)| format!("{key} {value}")));
    conditions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_filter_is_shown_as_conditions() {
        for (json, conditions) in [
            ("{}", ""),
            (
                r#"{"generation_to":3,"queue":"orders","class":["Timeout","exit 1"],"audit":7}"#,
                r#"queue=orders class=Timeout,"exit 1" generation<=3 audit=7"#,
            ),
            (r#"{"ids":[1,2,3,4,5,6]}"#, "id=1,2,3,4,5,..."),
            (
                r#"{"older_than_ms":7200000,"newer_than_ms":5400000}"#,
                "age>2h age<1h30m",
            ),
            (
                r#"{"payload":"$.a == 1","odd":1}"#,
                "payload $.a == 1 odd 1",
            ),
        ] {
            assert_eq!(stored_conditions(json).join(" "), conditions);
        }
    }
}
