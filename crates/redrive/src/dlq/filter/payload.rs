//! Conditions on the payload: a path, a comparison and a value. They become one `jsonpath`
//! predicate of quoted parts, so no text of the caller is interpreted.

use crate::dlq::filter::value::{Trouble, is_bare, is_plain, one, quoted, unquoted};
use crate::job::payload::Json;
use crate::job::words::words;

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

/// A place in the payload, such as `payload.customer.id` or `payload.tags[0]."x y"`.
pub(in crate::dlq) struct PayloadPath {
    /// As in a filter.
    text: String,
    pub(in crate::dlq) jsonpath: String,
}

impl PayloadPath {
    /// Returns the place that a field of a filter names; `None`: it is another field.
    pub(in crate::dlq) fn parse(field: &str) -> Result<Option<PayloadPath>, Trouble> {
        match field.strip_prefix("payload") {
            Some(rest) if rest.is_empty() || rest.starts_with(['.', '[']) => {
                PayloadPath::read(rest).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Reads the steps of a path.
    pub(super) fn read(path: &str) -> Result<PayloadPath, Trouble> {
        let (mut text, mut jsonpath) = ("payload".to_owned(), "$".to_owned());
        let mut rest = path;
        while !rest.is_empty() {
            if let Some(index) = rest.strip_prefix('[') {
                let (index, after) = index.split_once(']').ok_or("has a `[` without a `]`")?;
                let number: Option<u32> = index.parse().ok();
                let number = number.filter(|_| !index.starts_with('+'));
                let number = number.ok_or("has an index that is not a number such as [0]")?;
                let element = format!("[{number}]");
                text += &element;
                jsonpath += &element;
                rest = after;
                continue;
            }
            let name = rest
                .strip_prefix('.')
                .ok_or("has no dot between two names")?;
            let bare = name.find(['.', '[', '"', ']']).unwrap_or(name.len());
            let (name, after) = match name.split_at(bare) {
                ("", after) if after.starts_with('"') => unquoted(after)?,
                ("", _) => return Err("has an empty name".to_owned()),
                (name, after) => (name.to_owned(), after),
            };
            let quoted = quoted(&name);
            let is_plain = !name.is_empty() && name.chars().all(is_plain);
            text.extend([".", if is_plain { &name } else { &quoted }]);
            jsonpath.extend([".", &quoted]);
            rest = after;
        }
        Ok(PayloadPath { text, jsonpath })
    }
}

/// A condition on the payload.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PayloadCondition {
    /// As in a filter.
    pub(super) text: String,
    /// As a `jsonpath` predicate.
    pub(super) predicate: String,
}

impl PayloadCondition {
    /// Parses the value of a condition.
    pub(super) fn read(
        path: &PayloadPath,
        comparison: Comparison,
        value: &str,
    ) -> Result<PayloadCondition, Trouble> {
        let text = one(value)?;
        let is_text = value.starts_with('"') || comparison == Comparison::Contains;
        let value = if is_text { quoted(&text) } else { bare(&text) };
        PayloadCondition::new(path, comparison, &value)
    }

    /// Takes the JSON of a scalar, which jsonpath writes alike.
    pub(super) fn new(
        path: &PayloadPath,
        comparison: Comparison,
        value: &str,
    ) -> Result<PayloadCondition, Trouble> {
        if value.starts_with(['[', '{']) {
            return Err(
                "compares with a list or an object; use a number, a text, true, false or null"
                    .to_owned(),
            );
        }
        let text = serde_json::from_str::<String>(value).unwrap_or_default();
        let (operator, flag) = match comparison {
            Comparison::Contains if text.is_empty() => {
                return Err("needs a text after `~`".to_owned());
            }
            Comparison::Contains => ("like_regex", r#" flag "iq""#),
            Comparison::Equal => ("==", ""),
            Comparison::NotEqual
            | Comparison::AtMost
            | Comparison::AtLeast
            | Comparison::Less
            | Comparison::Greater => (comparison.as_str(), ""),
        };
        let is_bare = is_bare(&text) && bare(&text) == value;
        Ok(PayloadCondition {
            text: format!(
                "{}{comparison}{}",
                path.text,
                if is_bare { &text } else { value }
            ),
            predicate: format!("{} {operator} {value}{flag}", path.jsonpath),
        })
    }
}

/// Returns a bare value as JSON: a text, unless it looks like another type. A number keeps all its digits.
fn bare(word: &str) -> String {
    let looks_so = word.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '-');
    match looks_so && !word.ends_with(char::is_whitespace) && Json::parse(word).is_ok() {
        true => word.to_owned(),
        false => quoted(word),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::dlq::filter::LetterFilter;

    #[test]
    fn a_predicate_has_everything_in_quotes() {
        let condition = |path: &str, comparison, value: Value| {
            let filter = LetterFilter::new().payload(path, comparison, value);
            filter.expect(path).payload.pop().expect(path).predicate
        };
        let id = condition("customer.id", Comparison::Equal, 42.into());
        assert_eq!(id, r#"$."customer"."id" == 42"#);
        let injected = "\" || true".into();
        let tag = condition(r#"tags[0]."x \" y""#, Comparison::NotEqual, injected);
        assert_eq!(tag, r#"$."tags"[0]."x \" y" != "\" || true""#);
        let name = condition("name", Comparison::Contains, "a.b".into());
        assert_eq!(name, r#"$."name" like_regex "a.b" flag "iq""#);
        let both = LetterFilter::new().payload("a", Comparison::Less, 1.5);
        let both = both.and_then(|of| of.payload("b", Comparison::AtLeast, Value::Null));
        let both = both
            .and_then(|filter| filter.parameter())
            .expect("a filter");
        let expected = r#"{"payload":"($.\"a\" < 1.5) && ($.\"b\" >= null)"}"#;
        assert_eq!(both.as_str(), expected);
    }

    #[test]
    fn a_value_that_no_payload_has_is_refused() {
        for (comparison, value) in [
            (Comparison::Equal, Value::from([1])),
            (Comparison::Contains, "".into()),
            (Comparison::Contains, 1.into()),
        ] {
            let refused = LetterFilter::new().payload("a", comparison, value);
            assert!(refused.is_err());
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
