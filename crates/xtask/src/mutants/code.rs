//! SQL and PL/pgSQL as nested groups of tokens: brackets, and `CASE` with its `END`.
//!
//! The body of a function is code, too: its dollar quotes are tokens, and so is what is between
//! them. Keywords of this repository are in capitals.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::LazyLock;

use regex::Regex;

/// Blanks and comments, which are left out, and tokens: texts, names in quotes, parameters, dollar quotes, numbers, words,
/// operators and marks. The first alternative that fits counts. As in PostgreSQL, a sign at the end of an operator
/// belongs to the operand unless the operator has certain characters.
const TOKEN: &str = r#"(?sx)
    \s+ | --[^\n]* | /\*.*?\*/
  | (?<token>
        '(?:''|[^'])*' | [Ee]'(?:\\.|''|[^'\\])*'
      | "(?:""|[^"])*"
      | \$[0-9]+ | \$\w*\$
      | [0-9]\w*(?:\.\w+)? | \w+
      | [-+*/<>=]*[~!@\#%^&|`?][-+*/<>=~!@\#%^&|`?]* | [-+*/<>=]*[*/<>=] | [-+]
      | :: | := | \.\. | .
    )
"#;
static TOKENS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(TOKEN).ok());

/// Keywords that end a condition.
pub(super) const AFTER_CONDITION: &[&str] = &[
    "WHERE",
    "GROUP",
    "HAVING",
    "WINDOW",
    "ORDER",
    "LIMIT",
    "OFFSET",
    "FETCH",
    "UNION",
    "EXCEPT",
    "INTERSECT",
    "FOR",
    "ON",
    "DO",
    "RETURNING",
    "INTO",
    "LOOP",
    "THEN",
];

#[derive(Clone, Copy, Debug)]
pub(super) struct Token<'a> {
    pub(super) text: &'a str,
    /// Its first byte.
    at: usize,
}

impl Token<'_> {
    /// Returns where it ends, in bytes.
    fn end(self) -> usize {
        self.at + self.text.len()
    }

    /// Whether it is `$$` or `$tag$`.
    fn is_dollar_quote(self) -> bool {
        self.text.len() > 1 && self.text.starts_with('$') && self.text.ends_with('$')
    }
}

/// Returns the tokens of a text.
fn tokens(sql: &str) -> Vec<Token<'_>> {
    let found = TOKENS.iter().flat_map(|token| token.captures_iter(sql));
    let found = found.filter_map(|found| found.name("token"));
    let token = |found: regex::Match<'_>| Token {
        text: &sql[found.range()],
        at: found.start(),
    };
    found.map(token).collect()
}

/// A statement or a function.
#[derive(Debug)]
pub(super) struct Code<'a> {
    pub(super) text: &'a str,
    pub(super) tokens: Vec<Token<'a>>,
    /// The closing token of each group, by the opening one.
    closes: BTreeMap<usize, usize>,
    /// The `CASE` of each `WHEN` that belongs to one.
    cases: BTreeMap<usize, usize>,
}

impl<'a> Code<'a> {
    pub(super) fn new(text: &'a str) -> Code<'a> {
        let mut code = Code {
            text,
            tokens: tokens(text),
            closes: BTreeMap::new(),
            cases: BTreeMap::new(),
        };
        let mut open: Vec<usize> = Vec::new();
        for at in 0..code.tokens.len() {
            let in_case = open.last().copied().filter(|open| code.is(*open, "CASE"));
            match code.tokens[at].text {
                "(" | "[" => open.push(at),
                "CASE" if !code.is_before(at, "END") => open.push(at),
                "WHEN" => code.cases.extend(in_case.map(|case| (at, case))),
                "END" if in_case.is_none() || code.is(at + 1, "IF") || code.is(at + 1, "LOOP") => {}
                ")" | "]" | "END" => code.closes.extend(open.pop().map(|open| (open, at))),
                _ => {}
            }
        }
        code
    }

    /// Whether a token is this keyword, operator or mark.
    pub(super) fn is(&self, at: usize, text: &str) -> bool {
        self.tokens.get(at).is_some_and(|token| token.text == text)
    }

    /// Whether the token before this one is that keyword, operator or mark.
    pub(super) fn is_before(&self, at: usize, text: &str) -> bool {
        at > 0 && self.is(at - 1, text)
    }

    /// Returns the next token of the same group.
    pub(super) fn after(&self, at: usize) -> usize {
        self.close(at) + 1
    }

    /// Returns the last token of the group that begins here.
    pub(super) fn close(&self, at: usize) -> usize {
        self.closes.get(&at).copied().unwrap_or(at)
    }

    /// Returns the `CASE` of a `WHEN`.
    pub(super) fn case(&self, when: usize) -> Option<usize> {
        self.cases.get(&when).copied()
    }

    /// Returns the first token of the same group that ends what begins at `from`: one of the
    /// keywords, or the end of the group, of the statement or of the body.
    pub(super) fn end(&self, from: usize, keywords: &[&str]) -> usize {
        let mut at = from;
        while let Some(token) = self.tokens.get(at) {
            let is_last = token.is_dollar_quote() || [")", "]", ";", "END"].contains(&token.text);
            let is_keyword = keywords.contains(&token.text)
                && match token.text {
                    "ON" => self.is(at + 1, "CONFLICT"),
                    // IS DISTINCT FROM
                    "FROM" => !self.is_before(at, "DISTINCT"),
                    _ => true,
                };
            if is_last || is_keyword {
                break;
            }
            at = self.after(at);
        }
        at
    }

    /// Splits tokens at the commas of their group.
    pub(super) fn items(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let (mut items, mut from, mut at) = (Vec::new(), range.start, range.start);
        while at < range.end {
            if self.is(at, ",") {
                items.push(from..at);
                from = at + 1;
            }
            at = self.after(at);
        }
        if from < range.end {
            items.push(from..range.end);
        }
        items
    }

    /// Returns the place of tokens, in bytes.
    pub(super) fn place(&self, range: &Range<usize>) -> Range<usize> {
        let start = self
            .tokens
            .get(range.start)
            .map_or(self.text.len(), |token| token.at);
        let last = self.tokens[..range.end].last();
        start..last.map_or(start, |token| token.end().max(start))
    }

    /// Returns the text of tokens, with the comments between them.
    pub(super) fn source(&self, range: &Range<usize>) -> &'a str {
        &self.text[self.place(range)]
    }

    /// Whether a statement of PL/pgSQL begins here.
    pub(super) fn begins_a_statement(&self, at: usize) -> bool {
        let Some(before) = at.checked_sub(1).map(|before| self.tokens[before]) else {
            return true;
        };
        before.is_dollar_quote()
            || [";", "THEN", "ELSE", "BEGIN", "LOOP", ">>"].contains(&before.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_these_tokens() {
        for (sql, expected) in [
            ("a -- b\n /* c */ d", "a d"),
            ("'it''s' x", "'it''s' x"),
            (r"E'a\'b' c", r"E'a\'b' c"),
            (r#""a""b".c"#, r#""a""b" . c"#),
            ("$$BEGIN $1$$", "$$ BEGIN $1 $$"),
            ("a<=-1.5e3", "a <= - 1.5e3"),
            ("1..10", "1 .. 10"),
            ("a::text := b->>'c'", "a :: text := b ->> 'c'"),
            ("a @- b=--c\nd", "a @- b = d"),
        ] {
            let found: Vec<&str> = tokens(sql).iter().map(|token| token.text).collect();
            assert_eq!(found.join(" "), expected, "{sql}");
        }
    }
}
