//! The code of a Rust file, without its comments and strings.

/// Returns the code of a file. Comments and the contents of strings are left out, line ends are kept.
pub(crate) fn code_of(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        let raw =
            raw_string(rest).filter(|_| !code.ends_with(|c: char| c.is_alphanumeric() || c == '_'));
        let taken = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if let Some((head, tail)) = raw {
            let end = rest[head..]
                .find(&tail)
                .map_or(rest.len(), |end| head + end);
            code.push_str("\"\"");
            (end + tail.len()).min(rest.len())
        } else if next == '"' {
            code.push_str("\"\"");
            (end_of_string(rest) + 1).min(rest.len())
        } else if next == '\'' {
            character(rest)
        } else {
            code.push(next);
            rest = &rest[next.len_utf8()..];
            continue;
        };
        code.extend(rest[..taken].matches('\n').map(|_| '\n'));
        rest = &rest[taken..];
    }
    code
}

/// Returns where the text of a raw string begins, and what ends it.
fn raw_string(rest: &str) -> Option<(usize, String)> {
    let hashes = rest.strip_prefix('r').or_else(|| rest.strip_prefix("br"))?;
    let count = hashes.find(|c| c != '#')?;
    hashes[count..].starts_with('"').then(|| {
        let head = rest.len() - hashes.len() + count + 1;
        (head, format!("\"{}", "#".repeat(count)))
    })
}

fn end_of_string(rest: &str) -> usize {
    let mut escaped = true;
    for (place, c) in rest.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return place,
            _ => {}
        }
    }
    rest.len()
}

/// Returns the length of a character literal, or of the mark of a lifetime.
fn character(rest: &str) -> usize {
    let mut characters = rest.char_indices().skip(1);
    match (characters.next(), characters.next()) {
        (Some((_, '\\')), Some((second, _))) => {
            let after = second + 1;
            rest[after..]
                .find('\'')
                .map_or(rest.len(), |end| after + end + 1)
        }
        (Some(_), Some((second, '\''))) => second + 1,
        _ => 1,
    }
}

#[test]
fn comments_and_strings_are_left_out() {
    let code = code_of(
        "//! One\n//! two.\nfn a<'a>() { b(\"// no \\\" comment\", '\"', r#\"a \"b\"\"#) } // end\n",
    );
    assert_eq!(code, "\n\nfn a<a>() { b(\"\", , \"\") } \n");
}
