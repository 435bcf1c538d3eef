//! Separates the code of a Rust file from its comments and strings.

/// Prose at a line of a file.
pub(crate) struct Prose {
    pub(crate) line: usize,
    pub(crate) text: String,
}

/// A Rust file, taken apart.
pub(crate) struct Source {
    /// The code; comments and the contents of strings are left out, line ends are kept.
    pub(crate) code: String,
    /// The comments; consecutive lines are one.
    pub(crate) comments: Vec<Prose>,
    pub(crate) strings: Vec<Prose>,
}

impl Source {
    pub(crate) fn of(text: &str) -> Source {
        let mut source = Source {
            code: String::new(),
            comments: Vec::new(),
            strings: Vec::new(),
        };
        let mut rest = text;
        let mut line = 1;
        while let Some(next) = rest.chars().next() {
            let raw = raw_string(rest);
            let taken = if rest.starts_with("//") {
                let end = rest.find('\n').unwrap_or(rest.len());
                source.comment(line, rest[..end].trim_start_matches(['/', '!']));
                end
            } else if let Some((head, tail)) = raw
                && !source
                    .code
                    .ends_with(|c: char| c.is_alphanumeric() || c == '_')
            {
                let end = rest[head..]
                    .find(&tail)
                    .map_or(rest.len(), |end| head + end);
                source.string(line, &rest[head..end]);
                (end + tail.len()).min(rest.len())
            } else if next == '"' {
                let end = end_of_string(rest);
                source.string(line, &rest[1..end]);
                (end + 1).min(rest.len())
            } else if next == '\'' {
                character(rest)
            } else {
                source.code.push(next);
                line += usize::from(next == '\n');
                rest = &rest[next.len_utf8()..];
                continue;
            };
            let breaks = rest[..taken].matches('\n').count();
            source.code.extend((0..breaks).map(|_| '\n'));
            line += breaks;
            rest = &rest[taken..];
        }
        source
    }

    fn comment(&mut self, line: usize, text: &str) {
        let own_line = self
            .code
            .lines()
            .next_back()
            .is_none_or(|code| code.trim().is_empty())
            || self.code.ends_with('\n');
        match self.comments.last_mut() {
            Some(last) if own_line && last.line + last.text.matches('\n').count() + 1 == line => {
                last.text.push('\n');
                last.text.push_str(text);
            }
            _ => self.comments.push(Prose {
                line,
                text: text.to_owned(),
            }),
        }
    }

    fn string(&mut self, line: usize, text: &str) {
        self.code.push_str("\"\"");
        self.strings.push(Prose {
            line,
            text: text.replace("\\n", "\n").replace("\\\n", " \n"),
        });
    }
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
fn code_comments_and_strings_are_separated() {
    let source = Source::of(
        "//! One\n//! two.\nfn a<'a>() { b(\"// no \\\" comment\", '\"', r#\"a \"b\"\"#) } // end\n",
    );
    assert_eq!(source.code.trim(), "fn a<a>() { b(\"\", , \"\") }");
    let texts =
        |prose: &[Prose]| -> Vec<String> { prose.iter().map(|prose| prose.text.clone()).collect() };
    assert_eq!(texts(&source.comments), [" One\n two.", " end"]);
    assert_eq!(texts(&source.strings), ["// no \\\" comment", "a \"b\""]);
    assert_eq!(source.comments[1].line, 3);
}
