//! Conditions on the payload: a path, a comparison and a value. They become one `jsonpath`
//! predicate of quoted parts, so no text of the caller is interpreted.

use std::fmt;

use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::{Error, Result};
use crate::job::words::words;

/// The maximum number of digits of an array index, which PostgreSQL stores in 32 bits.
const INDEX_DIGITS: usize = 9;

words! {
    /// A comparison of a payload value.
    pub enum Comparison is "operator" {
        /// The value has the same type and differs.
        NotEqual = "!=",
        /// The value is lower or equal.
        AtMost = "<=",
        /// The value is greater or equal.
        AtLeast = ">=",
        /// The value is equal.
        Equal = "=",
        /// The value is lower.
        Less = "<",
        /// The value is greater.
        Greater = ">",
        /// The value is text that contains this text, ignoring case.
        Contains = "~",
    }
}

/// A place in the payload, such as `customer.id` or `tags[0]."x y"`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(in crate::dlq) struct PayloadPath(Vec<PathStep>);

/// A step of a path into the payload.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum PathStep {
    Field(String),
    Element(u32),
}

impl PayloadPath {
    pub(in crate::dlq) fn parse(path: &str) -> Result<PayloadPath> {
        let parsed = match steps(path) {
            _ if path.contains('\0') => Err("contains NUL"),
            Ok(steps) if steps.is_empty() => Err("is empty"),
            parsed => parsed,
        };
        parsed.map(PayloadPath).map_err(|why| {
            Error::invalid(format!("the payload path `{}` {why}", path.escape_debug()))
        })
    }

    /// Returns the names and the numbers of elements.
    pub(in crate::dlq) fn names(&self) -> Vec<String> {
        let name = |step: &PathStep| match step {
            PathStep::Field(name) => name.clone(),
            PathStep::Element(index) => index.to_string(),
        };
        self.0.iter().map(name).collect()
    }
}

/// Writes the path as in a filter, after `payload`.
impl fmt::Display for PayloadPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|step| match step {
            PathStep::Field(name) if !name.is_empty() && name.chars().all(is_plain) => {
                write!(f, ".{name}")
            }
            PathStep::Field(name) => write!(f, ".{}", quoted(name)),
            PathStep::Element(index) => write!(f, "[{index}]"),
        })
    }
}

/// Returns a bare value as JSON: a text, unless it looks like another type. A number keeps all its digits.
pub(super) fn bare(word: &str) -> String {
    match word {
        "null" | "true" | "false" => word.to_owned(),
        number if is_number(number) => number.to_owned(),
        text => quoted(text),
    }
}

/// Returns whether the word is a JSON number within the range of PostgreSQL.
fn is_number(word: &str) -> bool {
    let looks_so = word.starts_with(|c: char| c.is_ascii_digit() || c == '-');
    let exponent = word.split(['e', 'E']).nth(1).unwrap_or_default();
    let digits = exponent.trim_start_matches(['+', '-', '0']).len();
    looks_so
        && !word.ends_with(char::is_whitespace)
        && digits <= 4
        && serde_json::from_str::<&RawValue>(word).is_ok()
}

/// A condition on the payload.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PayloadCondition {
    path: PayloadPath,
    comparison: Comparison,
    /// The JSON of a scalar.
    value: String,
}

impl PayloadCondition {
    /// Returns a condition on the value at a path such as `customer.id` or `tags[0]."x y"`. jsonpath writes scalars as
    /// JSON does.
    pub(super) fn new(
        path: &str,
        comparison: Comparison,
        value: String,
    ) -> Result<PayloadCondition> {
        if value.starts_with(['[', '{']) {
            return Err(Error::invalid(
                "a payload value can only be compared with a number, a text, true, false or null",
            ));
        }
        let text = serde_json::from_str::<String>(&value).unwrap_or_default();
        if text.contains('\0') {
            return Err(Error::invalid("the filter contains NUL"));
        }
        if comparison == Comparison::Contains && text.is_empty() {
            return Err(Error::invalid("`~` needs a text that is not empty"));
        }
        Ok(PayloadCondition {
            path: PayloadPath::parse(path)?,
            comparison,
            value,
        })
    }

    /// Returns the equivalent `jsonpath` predicate.
    fn predicate(&self) -> String {
        let step = |step: &PathStep| match step {
            PathStep::Field(name) => format!(".{}", quoted(name)),
            PathStep::Element(index) => format!("[{index}]"),
        };
        let path: Vec<String> = self.path.0.iter().map(step).collect();
        let (operator, flag) = match self.comparison.as_str() {
            "~" => ("like_regex", r#" flag "iq""#),
            "=" => ("==", ""),
            other => (other, ""),
        };
        format!("${} {operator} {}{flag}", path.concat(), self.value)
    }
}

impl fmt::Display for PayloadCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "payload{}{}", self.path, self.comparison.as_str())?;
        match serde_json::from_str::<String>(&self.value) {
            Ok(text) if is_bare(&text) && bare(&text) == self.value => f.write_str(&text),
            Ok(_) | Err(_) => f.write_str(&self.value),
        }
    }
}

/// Returns one predicate for all conditions, or `None` without conditions.
pub(super) fn predicate(conditions: &[PayloadCondition]) -> Option<String> {
    let all = conditions
        .iter()
        .map(|condition| format!("({})", condition.predicate()));
    let all: Vec<String> = all.collect();
    (!all.is_empty()).then(|| all.join(" && "))
}

/// Returns whether a name or a value may contain the character without quotes.
fn is_plain(character: char) -> bool {
    character.is_alphanumeric() || "_-".contains(character)
}

/// Returns whether the text needs no quotes.
pub(super) fn is_bare(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| is_plain(c) || "./:@+".contains(c))
}

/// Quotes a text. JSON, jsonpath and the filter language read it alike.
pub(super) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn steps(path: &str) -> std::result::Result<Vec<PathStep>, &'static str> {
    let mut steps = Vec::new();
    let mut rest = path;
    while !rest.is_empty() {
        if let Some(index) = rest.strip_prefix('[') {
            let (digits, after) = index.split_once(']').ok_or("has a `[` without a `]`")?;
            let is_short = digits.len() <= INDEX_DIGITS && !digits.starts_with('+');
            match digits.parse() {
                Ok(index) if is_short => steps.push(PathStep::Element(index)),
                _ => return Err("has an index that is not a number such as [0]"),
            }
            rest = after;
            continue;
        }
        match (rest.strip_prefix('.'), steps.is_empty()) {
            (Some(after), false) => rest = after,
            (Some(_), true) => return Err("begins with a dot"),
            (None, true) => {}
            (None, false) => return Err("has no dot between two names"),
        }
        if rest.starts_with('"') {
            let end = end_of_quotes(rest).ok_or("has an unclosed quotation mark")?;
            let name = serde_json::from_str(&rest[..end])
                .map_err(|_| "has quotes around an invalid JSON string")?;
            steps.push(PathStep::Field(name));
            rest = &rest[end..];
        } else {
            let end = rest.find(['.', '[', '"', ']']).unwrap_or(rest.len());
            if end == 0 {
                return Err("has an empty name");
            }
            steps.push(PathStep::Field(rest[..end].to_owned()));
            rest = &rest[end..];
        }
    }
    Ok(steps)
}

/// Returns the end of the quoted text at the start of `text`: after the closing mark.
pub(in crate::dlq) fn end_of_quotes(text: &str) -> Option<usize> {
    let mut escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            '"' if !escaped => return Some(at + 1),
            _ => escaped = character == '\\' && !escaped,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_predicate_has_everything_in_quotes() {
        let condition = |path: &str, comparison, value: Value| {
            let condition = PayloadCondition::new(path, comparison, value.to_string());
            condition.expect(path).predicate()
        };
        let id = condition("customer.id", Comparison::Equal, 42.into());
        assert_eq!(id, r#"$."customer"."id" == 42"#);
        let injected = "\" || true".into();
        let tag = condition(r#"tags[0]."x \" y""#, Comparison::NotEqual, injected);
        assert_eq!(tag, r#"$."tags"[0]."x \" y" != "\" || true""#);
        let name = condition("name", Comparison::Contains, "a.b".into());
        assert_eq!(name, r#"$."name" like_regex "a.b" flag "iq""#);
        let two = [
            PayloadCondition::new("a", Comparison::Less, "1.5".to_owned()).expect("a condition"),
            PayloadCondition::new("b", Comparison::AtLeast, "null".to_owned())
                .expect("a condition"),
        ];
        let both = r#"($."a" < 1.5) && ($."b" >= null)"#;
        assert_eq!(predicate(&two).as_deref(), Some(both));
        assert_eq!(predicate(&[]), None);
    }

    #[test]
    fn a_value_that_no_payload_has_is_refused() {
        for (comparison, value) in [
            (Comparison::Equal, Value::from("x\0")),
            (Comparison::Equal, Value::from([1])),
            (Comparison::Contains, "".into()),
            (Comparison::Contains, 1.into()),
        ] {
            assert!(PayloadCondition::new("a", comparison, value.to_string()).is_err());
        }
    }

    #[test]
    fn a_bare_word_is_what_it_looks_like() {
        for word in [
            "42",
            "-1.5",
            "1e400",
            "12345678901234567890123",
            "-0",
            "true",
            "null",
        ] {
            assert_eq!(bare(word), word);
        }
        for word in [
            "007", "1.", "-", "Infinity", "truest", "1e99999", "\"x\"", "[1]", "1 ",
        ] {
            assert_eq!(bare(word), quoted(word));
        }
    }
}
