//! The conditions of a filter as text.

use serde_json::{Map, Value};

use crate::dlq::filter::fields::fields;
use crate::dlq::filter::payload::{PayloadCondition, PayloadPath};
use crate::dlq::filter::syntax::parts;
use crate::dlq::filter::value::Trouble;
use crate::dlq::filter::{Fields, Filter, LetterFilter};
use crate::error::{Error, Result};

/// How many values of a stored condition are shown.
const SHOWN: usize = 5;

impl<F: Fields> Filter<F> {
    /// Parses one condition and adds it.
    pub(super) fn read(&mut self, condition: &str) -> Result<()> {
        self.add(condition).map_err(|why| wrong(condition, &why))
    }

    fn add(&mut self, condition: &str) -> std::result::Result<(), Trouble> {
        if condition.contains('\0') {
            return Err("contains NUL".to_owned());
        }
        let known = || {
            fields(F::OF)
                .map(|field| field.example)
                .collect::<Vec<_>>()
                .join(", ")
        };
        let (name, comparison, value) = parts(condition).ok_or_else(|| {
            let known = known();
            format!(
                "has no operator such as `=`; quote values with blanks; expected one of {known}"
            )
        })?;
        if let Some(path) = PayloadPath::parse(name)? {
            self.payload
                .push(PayloadCondition::read(&path, comparison, value)?);
            return Ok(());
        }
        let field = fields(F::OF).find(|field| field.name == name);
        let field =
            field.ok_or_else(|| format!("has an unknown field; expected one of {}", known()))?;
        for (key, value) in field.read(comparison, value)? {
            if self.values.insert(key, value).is_some() {
                return Err(format!(
                    "repeats `{name}`; separate several values with commas"
                ));
            }
        }
        Ok(())
    }

    /// Returns the conditions, each as text. Leaves out `after` and the limit.
    pub fn conditions(&self) -> Vec<String> {
        let mut values = self.values.clone();
        let mut conditions = Vec::new();
        for field in fields(F::OF) {
            for key in field.keys() {
                let value = values.remove(&key.json).map(|value| field.written(&value));
                conditions.extend(value.map(|value| format!("{}{}{value}", field.name, key.sign)));
            }
        }
        conditions.extend(self.payload.iter().map(|condition| condition.text.clone()));
        // Of a filter that another version stored.
        conditions.extend(values.iter().map(|(key, value)| format!("{key} {value}")));
        conditions
    }
}

/// Returns the error of a condition.
pub(super) fn wrong(condition: &str, why: &str) -> Error {
    let shown = condition.escape_debug();
    Error::invalid(format!("the condition `{shown}` of the filter {why}"))
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
    stored.conditions()
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
