//! A stored filter as the conditions that an operator types.

use serde_json::{Map, Value};

/// How many values of a condition are shown.
const VALUES: usize = 5;

/// The keys of a stored filter, in the order of the conditions, and how the condition begins.
const CONDITIONS: [(&str, &str); 20] = [
    ("queue", "queue="),
    ("kind", "kind="),
    ("class", "class="),
    ("group", "group="),
    ("cause", "cause="),
    ("state", "state="),
    ("ids", "id="),
    ("id_from", "id>="),
    ("id_to", "id<="),
    ("generation_from", "generation>="),
    ("generation_to", "generation<="),
    ("older_than_ms", "age>"),
    ("newer_than_ms", "age<"),
    ("died_from", "died>="),
    ("died_to", "died<"),
    ("message", "message~"),
    ("version", "version="),
    ("host", "host="),
    ("source", "source="),
    ("run", "run="),
];

/// A filter of a run or a policy.
pub(super) struct StoredFilter(Map<String, Value>);

impl StoredFilter {
    pub(super) fn of(json: &str) -> StoredFilter {
        StoredFilter(serde_json::from_str(json).unwrap_or_default())
    }

    /// The queue; `None`: all queues.
    pub(super) fn queue(&self) -> Option<&str> {
        self.0.get("queue").and_then(Value::as_str)
    }

    /// The conditions besides the queue.
    pub(super) fn conditions(&self) -> String {
        let known = CONDITIONS.iter().filter_map(|(key, start)| {
            let value = self.0.get(*key).filter(|_| *key != "queue")?;
            Some(format!("{start}{}", condition(key, value)))
        });
        let unknown = self.0.iter().filter_map(|(key, value)| {
            let is_known = CONDITIONS.iter().any(|(known, _)| known == key);
            (!is_known).then(|| format!("{key} {}", text(value)))
        });
        known.chain(unknown).collect::<Vec<_>>().join(" ")
    }
}

fn condition(key: &str, value: &Value) -> String {
    match value {
        Value::Number(ms) if key.ends_with("_ms") => age(ms.as_u64().unwrap_or_default()),
        Value::Array(values) => {
            let shown: Vec<String> = values.iter().take(VALUES).map(text).collect();
            let more = match values.len() > VALUES {
                true => ",...",
                false => "",
            };
            format!("{}{more}", shown.join(","))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => {
            text(value)
        }
    }
}

/// An age in the largest unit that divides it.
fn age(ms: u64) -> String {
    const UNITS: [(&str, u64); 4] = [
        ("d", 86_400_000),
        ("h", 3_600_000),
        ("m", 60_000),
        ("s", 1000),
    ];
    UNITS
        .iter()
        .find(|(_, unit)| ms > 0 && ms.is_multiple_of(*unit))
        .map_or_else(
            || format!("{ms}ms"),
            |(name, unit)| format!("{}{name}", ms / unit),
        )
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other @ (Value::Null
        | Value::Bool(_)
        | Value::Number(_)
        | Value::Array(_)
        | Value::Object(_)) => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stored_filter_is_shown_as_conditions() {
        for (json, queue, conditions) in [
            ("{}", None, ""),
            (r#"{"queue":"orders"}"#, Some("orders"), ""),
            (
                r#"{"generation_to":3,"queue":"orders","class":["Timeout","Refused"]}"#,
                Some("orders"),
                "class=Timeout,Refused generation<=3",
            ),
            (r#"{"ids":[1,2,3,4,5,6]}"#, None, "id=1,2,3,4,5,..."),
            (
                r#"{"older_than_ms":7200000,"newer_than_ms":5400000}"#,
                None,
                "age>2h age<90m",
            ),
            (r#"{"payload":"$.a == 1"}"#, None, "payload $.a == 1"),
        ] {
            let filter = StoredFilter::of(json);
            assert_eq!((filter.queue(), &*filter.conditions()), (queue, conditions));
        }
    }
}
