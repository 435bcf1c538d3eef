//! The tokens of SQL and PL/pgSQL, without comments.
//!
//! The body of a function is code, too: its dollar quotes are tokens, and so is what is between
//! them.

use std::sync::LazyLock;

use regex::{Captures, Regex};

/// The kind of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A keyword or a name. The keywords of this repository are in capitals.
    Word,
    /// A name in quotes.
    Quoted,
    Number,
    /// A string, with its quotes.
    Text,
    /// `$1`
    Parameter,
    Operator,
    /// A bracket, a separator, `::`, `:=` or `..`.
    Mark,
    /// `$$` or `$tag$`
    Dollar,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Token<'a> {
    pub(super) kind: Kind,
    pub(super) text: &'a str,
    /// Its first byte.
    pub(super) at: usize,
}

impl Token<'_> {
    /// Returns where it ends, in bytes.
    pub(super) fn end(self) -> usize {
        self.at + self.text.len()
    }
}

/// The kinds by the groups of the pattern, of which the first that fits counts. Blanks and comments have no group. As in
/// PostgreSQL, a sign at the end of an operator belongs to the operand unless the operator has certain characters.
const KINDS: [(&str, Kind); 8] = [
    ("text", Kind::Text),
    ("quoted", Kind::Quoted),
    ("parameter", Kind::Parameter),
    ("dollar", Kind::Dollar),
    ("number", Kind::Number),
    ("word", Kind::Word),
    ("operator", Kind::Operator),
    ("mark", Kind::Mark),
];
const TOKEN: &str = r#"(?sx)
    \s+ | --[^\n]* | /\*.*?\*/
  | (?<text> '(?:''|[^'])*' | [Ee]'(?:\\.|''|[^'\\])*')
  | (?<quoted> "(?:""|[^"])*")
  | (?<parameter> \$[0-9]+)
  | (?<dollar> \$\w*\$)
  | (?<number> [0-9]\w*(?:\.\w+)?)
  | (?<word> \w+)
  | (?<operator> [-+*/<>=]*[~!@\#%^&|`?][-+*/<>=~!@\#%^&|`?]* | [-+*/<>=]*[*/<>=] | [-+])
  | (?<mark> :: | := | \.\. | .)
"#;
static TOKENS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(TOKEN).ok());

/// Returns the tokens of a text.
pub(super) fn tokens(sql: &str) -> Vec<Token<'_>> {
    let token = |found: Captures<'_>| {
        KINDS.iter().find_map(|(name, kind)| {
            let place = found.name(name)?.range();
            Some((*kind, place))
        })
    };
    let found = TOKENS.iter().flat_map(|pattern| pattern.captures_iter(sql));
    let found = found.filter_map(token).map(|(kind, place)| Token {
        kind,
        at: place.start,
        text: &sql[place],
    });
    found.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_these_tokens() {
        let cases = [
            ("a -- b\n /* c */ d", "Word a, Word d"),
            ("'it''s' x", "Text 'it''s', Word x"),
            (r"E'a\'b' c", r"Text E'a\'b', Word c"),
            (r#""a""b".c"#, r#"Quoted "a""b", Mark ., Word c"#),
            (
                "$$BEGIN $1$$",
                "Dollar $$, Word BEGIN, Parameter $1, Dollar $$",
            ),
            ("a<=-1.5e3", "Word a, Operator <=, Operator -, Number 1.5e3"),
            ("1..10", "Number 1, Mark .., Number 10"),
            (
                "a::text := b->>'c'",
                "Word a, Mark ::, Word text, Mark :=, Word b, Operator ->>, Text 'c'",
            ),
            (
                "a @- b=--c\nd",
                "Word a, Operator @-, Word b, Operator =, Word d",
            ),
        ];
        for (sql, expected) in cases {
            let found = tokens(sql).into_iter();
            let found = found.map(|token| format!("{:?} {}", token.kind, token.text));
            assert_eq!(found.collect::<Vec<_>>().join(", "), expected, "{sql}");
        }
    }
}
