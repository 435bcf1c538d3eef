//! YAML files as JSON values. JSON is YAML, so promtool reads what is written from them.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use saphyr::{LoadableYamlNode, Scalar, Yaml};
use serde_json::{Map, Number, Value};

/// Reads a file with one document.
pub(crate) fn read(path: &Path) -> Result<Value> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    parse(&text).map_err(|error| anyhow!("cannot read {}: {error}", path.display()))
}

fn parse(text: &str) -> Result<Value, String> {
    let documents = Yaml::load_from_str(text).map_err(|error| error.to_string())?;
    match documents.as_slice() {
        [document] => value(document),
        others => Err(format!("{} documents; expected one", others.len())),
    }
}

fn value(yaml: &Yaml<'_>) -> Result<Value, String> {
    Ok(match yaml {
        Yaml::Value(Scalar::Null) => Value::Null,
        Yaml::Value(Scalar::Boolean(truth)) => Value::Bool(*truth),
        Yaml::Value(Scalar::Integer(number)) => Value::Number(Number::from(*number)),
        Yaml::Value(Scalar::FloatingPoint(number)) => Number::from_f64(number.into_inner())
            .map(Value::Number)
            .ok_or("a number that JSON does not have")?,
        Yaml::Value(Scalar::String(text)) => Value::String(text.to_string()),
        Yaml::Sequence(items) => Value::Array(items.iter().map(value).collect::<Result<_, _>>()?),
        Yaml::Mapping(entries) => entries
            .iter()
            .map(|(name, entry)| {
                let name = name.as_str().ok_or("a key that is not a string")?;
                Ok((name.to_owned(), value(entry)?))
            })
            .collect::<Result<Map<_, _>, String>>()
            .map(Value::Object)?,
        Yaml::Representation(..) | Yaml::Tagged(..) | Yaml::Alias(_) | Yaml::BadValue => {
            return Err("tags, aliases and untyped values are not supported".to_owned());
        }
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::parse;

    #[test]
    fn yaml_becomes_json() {
        let read = parse("a: [1, 0.5, true, ~, 5m]\nb:\n- c: |-\n    x\n    y\n").expect("YAML");
        assert_eq!(
            read,
            json!({"a": [1, 0.5, true, null, "5m"], "b": [{"c": "x\ny"}]})
        );
        assert!(parse("a: 1\n---\nb: 2\n").is_err(), "two documents");
        assert!(parse("a: [").is_err());
    }
}
