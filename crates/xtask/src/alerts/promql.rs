//! `PromQL`, as far as it takes to check an expression against the catalogue and to change it in one
//! place: a list of its parts with their positions. Whether it is valid, promtool says.

use std::ops::Range;

/// A part of an expression.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Part {
    /// A number.
    Number(String),
    /// `==`, `!=`, `>`, `<`, `>=`, `<=`.
    Comparison(String),
    /// `and`, `or`, `unless`.
    Set(String),
    /// `+`, `-`, `*`, `/`.
    Arithmetic(char),
    /// A metric, with the matchers behind it.
    Selector(String, Vec<Matcher>),
    /// What stands in square brackets.
    Window(String),
    /// `by`, `on` and the like, with its labels.
    Grouping(String, Vec<String>),
    /// The name of a function or an aggregation.
    Call(String),
    /// `(`
    Open,
    /// `)`
    Close,
}

/// `label="value"`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Matcher {
    pub(crate) label: String,
    pub(crate) operator: String,
    pub(crate) value: String,
}

impl Matcher {
    /// The values it names: the alternatives of a regular expression, or the one value.
    pub(crate) fn values(&self) -> Vec<&str> {
        if self.operator.contains('~') {
            self.value.split('|').collect()
        } else {
            vec![&self.value]
        }
    }
}

/// A part and the bytes it takes up.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Placed {
    pub(crate) part: Part,
    pub(crate) bytes: Range<usize>,
}

const SETS: [&str; 3] = ["and", "or", "unless"];
const GROUPINGS: [&str; 6] = [
    "by",
    "without",
    "on",
    "ignoring",
    "group_left",
    "group_right",
];

/// The parts of an expression, in order; an error names what it does not know.
pub(crate) fn parts(expression: &str) -> Result<Vec<Placed>, String> {
    let mut reader = Reader {
        text: expression,
        at: 0,
    };
    let mut parts = Vec::new();
    loop {
        reader.skip_blanks();
        let begin = reader.at;
        let Some(part) = reader.part()? else {
            return Ok(parts);
        };
        parts.push(Placed {
            part,
            bytes: begin..reader.at,
        });
    }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    /// Blanks, and the commas between arguments.
    fn skip_blanks(&mut self) {
        let rest = self.rest();
        let blank = |c: char| c.is_whitespace() || c == ',';
        self.at += rest.len() - rest.trim_start_matches(blank).len();
    }

    fn eat(&mut self, text: &str) -> bool {
        let eaten = self.rest().starts_with(text);
        if eaten {
            self.at += text.len();
        }
        eaten
    }

    fn take_while(&mut self, belongs: impl Fn(char) -> bool) -> String {
        let end = self
            .rest()
            .find(|c| !belongs(c))
            .unwrap_or(self.rest().len());
        let taken = self.rest()[..end].to_owned();
        self.at += end;
        taken
    }

    fn word(&mut self) -> String {
        self.take_while(|c| c.is_ascii_alphanumeric() || c == '_' || c == ':')
    }

    fn trouble(&self, wanted: &str) -> String {
        format!("{wanted} expected at `{}`", self.rest())
    }

    fn part(&mut self) -> Result<Option<Part>, String> {
        let Some(first) = self.rest().chars().next() else {
            return Ok(None);
        };
        for comparison in ["==", "!=", ">=", "<=", ">", "<"] {
            if self.eat(comparison) {
                return Ok(Some(Part::Comparison(comparison.to_owned())));
            }
        }
        Ok(Some(match first {
            '(' => {
                self.at += 1;
                Part::Open
            }
            ')' => {
                self.at += 1;
                Part::Close
            }
            '+' | '-' | '*' | '/' => {
                self.at += 1;
                Part::Arithmetic(first)
            }
            '[' => {
                self.at += 1;
                let window = self.take_while(|c| c != ']');
                if !self.eat("]") {
                    return Err(self.trouble("`]`"));
                }
                Part::Window(window)
            }
            '0'..='9' | '.' => {
                Part::Number(self.take_while(|c| c.is_ascii_alphanumeric() || c == '.'))
            }
            'a'..='z' | 'A'..='Z' | '_' | ':' => self.named()?,
            _ => return Err(self.trouble("a part of PromQL")),
        }))
    }

    /// What begins with a name.
    fn named(&mut self) -> Result<Part, String> {
        let name = self.word();
        if SETS.contains(&&*name) {
            return Ok(Part::Set(name));
        }
        let end = self.at;
        self.skip_blanks();
        if GROUPINGS.contains(&&*name) {
            return Ok(Part::Grouping(name, self.labels()?));
        }
        if self.eat("{") {
            return Ok(Part::Selector(name, self.matchers()?));
        }
        let mut after = self.rest().split_whitespace();
        let is_call = self.rest().starts_with('(')
            || after
                .next()
                .is_some_and(|word| matches!(word.split('(').next(), Some("by" | "without")));
        self.at = end;
        Ok(if is_call {
            Part::Call(name)
        } else {
            Part::Selector(name, Vec::new())
        })
    }

    /// `(label, label)`.
    fn labels(&mut self) -> Result<Vec<String>, String> {
        if !self.eat("(") {
            return Err(self.trouble("`(`"));
        }
        let mut labels = Vec::new();
        loop {
            self.skip_blanks();
            if self.eat(")") {
                return Ok(labels);
            }
            let label = self.word();
            if label.is_empty() {
                return Err(self.trouble("a label"));
            }
            labels.push(label);
        }
    }

    /// `label="value", …}`.
    fn matchers(&mut self) -> Result<Vec<Matcher>, String> {
        let mut matchers = Vec::new();
        loop {
            self.skip_blanks();
            if self.eat("}") {
                return Ok(matchers);
            }
            let label = self.word();
            let operator = self.take_while(|c| "=!~".contains(c));
            if label.is_empty() || !self.eat("\"") {
                return Err(self.trouble("`label=\"value\"`"));
            }
            let value = self.take_while(|c| c != '"');
            if value.contains('\\') || !self.eat("\"") {
                return Err(self.trouble("a value without backslashes, and `\"`"));
            }
            matchers.push(Matcher {
                label,
                operator,
                value,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Matcher, Part, parts};

    #[test]
    fn an_expression_falls_into_its_parts() {
        let expression = "sum by (job, queue) (rate(a_total{x=\"1\", y!~\"b|c\"}[5m])) > 0.5 * b\n\
                          unless on (job) time() - c:d >= 1e9";
        let parts = parts(expression).expect("parts");
        let of = |label: &str, operator: &str, value: &str| Matcher {
            label: label.to_owned(),
            operator: operator.to_owned(),
            value: value.to_owned(),
        };
        let name = |name: &str| Part::Selector(name.to_owned(), Vec::new());
        let labels = |labels: &[&str]| labels.iter().map(|&label| label.to_owned()).collect();
        let found: Vec<Part> = parts.iter().map(|placed| placed.part.clone()).collect();
        assert_eq!(
            found,
            [
                Part::Call("sum".to_owned()),
                Part::Grouping("by".to_owned(), labels(&["job", "queue"])),
                Part::Open,
                Part::Call("rate".to_owned()),
                Part::Open,
                Part::Selector(
                    "a_total".to_owned(),
                    vec![of("x", "=", "1"), of("y", "!~", "b|c")]
                ),
                Part::Window("5m".to_owned()),
                Part::Close,
                Part::Close,
                Part::Comparison(">".to_owned()),
                Part::Number("0.5".to_owned()),
                Part::Arithmetic('*'),
                name("b"),
                Part::Set("unless".to_owned()),
                Part::Grouping("on".to_owned(), labels(&["job"])),
                Part::Call("time".to_owned()),
                Part::Open,
                Part::Close,
                Part::Arithmetic('-'),
                name("c:d"),
                Part::Comparison(">=".to_owned()),
                Part::Number("1e9".to_owned()),
            ]
        );
        let selector = parts[5].bytes.clone();
        assert_eq!(&expression[selector], "a_total{x=\"1\", y!~\"b|c\"}");
    }

    #[test]
    fn commas_belong_to_no_part() {
        let expression = "clamp_min(a, 0)";
        let parts = parts(expression).expect("parts");
        let texts: Vec<&str> = parts
            .iter()
            .map(|placed| &expression[placed.bytes.clone()])
            .collect();
        assert_eq!(texts, ["clamp_min", "(", "a", "0", ")"]);
    }

    #[test]
    fn what_is_no_promql_is_refused() {
        for wrong in [
            "a{b=c}",
            "sum by job (a)",
            "a[5m",
            "a ? b",
            "a{b=\"c\\\\d\"}",
        ] {
            assert!(parts(wrong).is_err(), "{wrong}");
        }
    }
}
