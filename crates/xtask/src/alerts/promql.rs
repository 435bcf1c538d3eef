//! Enough of `PromQL` to check an expression against the metric catalogue: a list of its tokens
//! with their positions. promtool checks the syntax.

use std::ops::Range;
use std::sync::LazyLock;

use regex::{Captures, Regex};

/// A token of an expression. Numbers, operators and names of functions have none.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    /// A metric with its matchers.
    Selector(String, Vec<Matcher>),
    /// A duration in square brackets.
    Window(String),
    /// `by`, `on` and the like, with labels.
    Grouping(String, Vec<String>),
    Open,
    Close,
}

/// `label="value"`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Matcher {
    pub(crate) label: String,
    pub(crate) operator: String,
    pub(crate) value: String,
}

#[cfg(test)]
impl Matcher {
    /// Returns the alternatives of a regular expression, or the one value.
    pub(crate) fn values(&self) -> Vec<&str> {
        if self.operator.contains('~') {
            self.value.split('|').collect()
        } else {
            vec![&self.value]
        }
    }
}

/// A token and its bytes in the expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Placed {
    pub(crate) part: Part,
    pub(crate) bytes: Range<usize>,
}

const TOKEN: &str = r#"(?x)^(?:
    [\s,]+
  | [=!><]=|[><]
  | [-+*/]
  | (?<open>\()
  | (?<close>\))
  | \[(?<window>[0-9a-z]+)\]
  | [0-9.][0-9a-z.]*
  | (?:and|or|unless)\b
  | offset\s+[0-9a-z]+
  | (?<grouping>by|without|on|ignoring|group_left|group_right)\s*\((?<labels>[\w,\s]*)\)
  | (?<call>[a-z_]+)(?:\s*\(|\s+(?:by|without)\b)
  | (?<selector>[a-zA-Z_:][\w:]*)(?<matchers>\{(?:[\s,]*\w+[=!~]+"[^"\\]*")*[\s,]*\})?
)"#;

static TOKENS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(TOKEN).ok());
static MATCHERS: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r#"(\w+)([=!~]+)"([^"]*)""#).ok());

/// Returns the tokens of an expression in order. The error shows the unknown rest.
pub(crate) fn parts(expression: &str) -> Result<Vec<Placed>, String> {
    let tokens = TOKENS.as_ref().ok_or("the token pattern is invalid")?;
    let mut parts = Vec::new();
    let mut at = 0;
    while at < expression.len() {
        let rest = &expression[at..];
        let found = tokens
            .captures(rest)
            .ok_or_else(|| format!("unknown PromQL at `{rest}`"))?;
        let call = found.name("call");
        let length = call.unwrap_or_else(|| found.get_match()).len();
        if let Some(part) = part(&found) {
            let bytes = at..at + length;
            parts.push(Placed { part, bytes });
        }
        at += length;
    }
    Ok(parts)
}

fn part(found: &Captures<'_>) -> Option<Part> {
    let text = |name: &str| found.name(name).map(|text| text.as_str().to_owned());
    let labels = || {
        let labels = text("labels").unwrap_or_default();
        let labels = labels
            .split(',')
            .map(str::trim)
            .filter(|label| !label.is_empty());
        labels.map(str::to_owned).collect()
    };
    None.or_else(|| text("open").map(|_| Part::Open))
        .or_else(|| text("close").map(|_| Part::Close))
        .or_else(|| text("window").map(Part::Window))
        .or_else(|| text("grouping").map(|word| Part::Grouping(word, labels())))
        .or_else(|| {
            let inside = text("matchers").unwrap_or_default();
            text("selector").map(|name| Part::Selector(name, matchers(&inside)))
        })
}

fn matchers(inside: &str) -> Vec<Matcher> {
    let all = MATCHERS
        .iter()
        .flat_map(|pattern| pattern.captures_iter(inside));
    all.map(|found| {
        let (_, [label, operator, value]) = found.extract();
        Matcher {
            label: label.to_owned(),
            operator: operator.to_owned(),
            value: value.to_owned(),
        }
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn an_expression_falls_into_its_parts() {
        let expression = "sum by (job, queue) (rate(a_total{x=\"1\", y!~\"b|c\"}[5m])) > 0.5 * b\n\
                          unless on (job) time() - c:d >= clamp_min(e, 1e9)";
        let parts = parts(expression).expect("valid PromQL");
        let texts: Vec<&str> = parts
            .iter()
            .map(|placed| &expression[placed.bytes.clone()])
            .collect();
        assert_eq!(
            texts.join(" ; "),
            "by (job, queue) ; ( ; ( ; a_total{x=\"1\", y!~\"b|c\"} ; [5m] ; ) ; ) ; \
             b ; on (job) ; ( ; ) ; c:d ; ( ; e ; )"
        );
        let shown = format!("{:?}", parts[3].part);
        assert!(
            shown.contains("label: \"y\", operator: \"!~\", value: \"b|c\""),
            "{shown}"
        );
    }

    #[test]
    fn invalid_promql_is_rejected() {
        for wrong in ["a{b=c}", "a[5m", "a ? b", "a{b=\"c\\\\d\"}"] {
            parts(wrong).expect_err(wrong);
        }
    }
}
