//! The tokens of SQL and PL/pgSQL, without comments.
//!
//! The body of a function is code, too: its dollar quotes are tokens, and so is what is between
//! them.

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

/// Returns the tokens of a text.
pub(super) fn tokens(sql: &str) -> Vec<Token<'_>> {
    let (mut tokens, mut at) = (Vec::new(), 0);
    while let Some(first) = sql[at..].chars().next() {
        let rest = &sql[at..];
        let (kind, length) = token(first, rest);
        if let Some(kind) = kind {
            let text = &rest[..length];
            tokens.push(Token { kind, text, at });
        }
        at += length;
    }
    tokens
}

/// Returns the kind and the length of the token at the start of a text. Blanks and comments have no
/// kind.
fn token(first: char, rest: &str) -> (Option<Kind>, usize) {
    let run = |is_part: fn(char) -> bool| rest.find(|c| !is_part(c)).unwrap_or(rest.len());
    let up_to = |end: &str| rest.find(end).map_or(rest.len(), |at| at + end.len());
    match first {
        _ if first.is_whitespace() => (None, run(char::is_whitespace)),
        _ if rest.starts_with("--") => (None, up_to("\n")),
        _ if rest.starts_with("/*") => (None, up_to("*/")),
        '\'' => (Some(Kind::Text), quoted(rest, 1, None)),
        'E' | 'e' if rest[1..].starts_with('\'') => (Some(Kind::Text), quoted(rest, 2, Some('\\'))),
        '"' => (Some(Kind::Quoted), quoted(rest, 1, None)),
        '$' => dollar(rest),
        '0'..='9' => (Some(Kind::Number), number(rest)),
        _ if is_name(first) => (Some(Kind::Word), run(is_name)),
        _ if is_operator(first) => (Some(Kind::Operator), operator(rest)),
        _ => {
            let pairs = ["::", ":=", ".."];
            let is_pair = pairs.iter().any(|pair| rest.starts_with(pair));
            let length = if is_pair { 2 } else { first.len_utf8() };
            (Some(Kind::Mark), length)
        }
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn is_operator(c: char) -> bool {
    "+-*/<>=~!@#%^&|`?".contains(c)
}

/// Returns the length of a quoted text. A doubled quote does not end it.
fn quoted(rest: &str, opening: usize, escape: Option<char>) -> usize {
    let quote = rest[..opening].chars().last();
    let mut chars = rest.char_indices().skip(opening).peekable();
    while let Some((at, c)) = chars.next() {
        if Some(c) == escape {
            chars.next();
        } else if Some(c) == quote && chars.next_if(|(_, next)| Some(*next) == quote).is_none() {
            return at + 1;
        }
    }
    rest.len()
}

fn dollar(rest: &str) -> (Option<Kind>, usize) {
    let is_parameter = rest[1..].starts_with(|c: char| c.is_ascii_digit());
    let is_part = |c: char| {
        if is_parameter {
            c.is_ascii_digit()
        } else {
            is_name(c)
        }
    };
    let name = 1 + rest[1..].find(|c| !is_part(c)).unwrap_or(rest.len() - 1);
    match is_parameter {
        true => (Some(Kind::Parameter), name),
        false => (Some(Kind::Dollar), rest.len().min(name + 1)),
    }
}

fn number(rest: &str) -> usize {
    let digits = |from: usize| {
        let rest = &rest[from..];
        from + rest.find(|c: char| !is_name(c)).unwrap_or(rest.len())
    };
    let whole = digits(0);
    match rest[whole..].starts_with('.') && !rest[whole..].starts_with("..") {
        true => digits(whole + 1),
        false => whole,
    }
}

/// Returns the length of an operator. As in PostgreSQL, a sign at its end belongs to the operand
/// unless the operator has certain characters.
fn operator(rest: &str) -> usize {
    let mut length = rest.find(|c| !is_operator(c)).unwrap_or(rest.len());
    for comment in ["--", "/*"] {
        length = rest[..length].find(comment).unwrap_or(length);
    }
    let may_end_with_a_sign = rest[..length].contains(|c| "~!@#%^&|`?".contains(c));
    while length > 1 && !may_end_with_a_sign && rest[..length].ends_with(['+', '-']) {
        length -= 1;
    }
    length
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

    #[test]
    fn a_token_knows_its_place_after_characters_of_several_bytes() {
        let sql = "-- é\n'ü' = a";
        for token in tokens(sql) {
            assert_eq!(&sql[token.at..token.end()], token.text);
        }
    }
}
