//! Prose: what people read is plain English, counted by the markers of the opposite.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;

use super::source::{Prose, Source};
use super::{files, markers, read, shown};

/// The markers that are allowed in 1,000 words.
const MAX_RATE: f64 = 0.5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// Pages.
    Page,
    /// Comments and documentation in code.
    Comment,
    /// Help, errors, log lines and messages of tests.
    String,
    /// Names of functions that are sentences, which are tests.
    Name,
    /// Alerts and other configuration.
    Configuration,
}

fn page(text: &str) -> String {
    let mut fenced = false;
    let mut plain = String::new();
    for line in text.lines() {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        if !fenced && !fence {
            for (place, part) in line.split('`').enumerate() {
                plain.push_str(if place % 2 == 0 { part } else { "X" });
            }
        }
        plain.push('\n');
    }
    plain
}

/// Returns the comments that begin with a mark, consecutive lines as one.
fn comments(text: &str, mark: &str) -> Vec<Prose> {
    let mut found: Vec<Prose> = Vec::new();
    let mut last = 0;
    for (line, text) in (1..).zip(text.lines()) {
        let Some(place) = text.find(mark) else {
            continue;
        };
        let comment = &text[place + mark.len()..];
        match found.last_mut() {
            Some(before) if last + 1 == line => {
                before.text.push('\n');
                before.text.push_str(comment);
            }
            _ => found.push(Prose {
                line,
                text: comment.to_owned(),
            }),
        }
        last = line;
    }
    found
}

/// Returns the strings of a line-based language that are sentences.
fn strings(text: &str, quotes: &[char]) -> Vec<Prose> {
    let mut found = Vec::new();
    for (line, text) in (1..).zip(text.lines()) {
        for quote in quotes {
            for string in text.split(*quote).skip(1).step_by(2) {
                if string.matches(' ').count() >= 2 {
                    found.push(Prose {
                        line,
                        text: string.to_owned(),
                    });
                }
            }
        }
    }
    found
}

/// Returns the names of functions of four words or more, as sentences.
fn names(code: &str) -> Vec<Prose> {
    let mut found = Vec::new();
    for (line, text) in (1..).zip(code.lines()) {
        if let Some((_, name)) = text.split_once("fn ")
            && let Some((name, _)) = name.split_once(['(', '<'])
            && name.matches('_').count() >= 3
        {
            let mut sentence = name.replace('_', " ");
            sentence[..1].make_ascii_uppercase();
            found.push(Prose {
                line,
                text: format!("{sentence}."),
            });
        }
    }
    found
}

fn prose(path: &Path) -> Vec<(Kind, Vec<Prose>)> {
    let text = read(path);
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("md") => vec![(
            Kind::Page,
            vec![Prose {
                line: 1,
                text: page(&text),
            }],
        )],
        Some("rs") => {
            let source = Source::of(&text);
            let mut strings = source.strings;
            strings.retain(|string| string.text.contains(' ') && string.text.len() > 12);
            vec![
                (Kind::Name, names(&source.code)),
                (Kind::Comment, source.comments),
                (Kind::String, strings),
            ]
        }
        Some("sql") => vec![
            (Kind::Comment, comments(&text, "--")),
            (Kind::String, strings(&text, &['\''])),
        ],
        Some("mjs" | "jsx") => vec![
            (Kind::Comment, comments(&text, "// ")),
            (Kind::Comment, comments(&text, "* ")),
            (Kind::String, strings(&text, &['"', '`', '\''])),
        ],
        Some("yml" | "yaml") => vec![(Kind::Configuration, vec![Prose { line: 1, text }])],
        _ => vec![(Kind::Configuration, comments(&text, "#"))],
    }
}

#[test]
fn every_kind_of_text_is_plain_english() {
    let mut counts: BTreeMap<Kind, (usize, Vec<String>)> = BTreeMap::new();
    for path in files(
        "",
        &["md", "rs", "sql", "mjs", "jsx", "yml", "yaml", "toml", "sh"],
    ) {
        if path.ends_with("tidy/markers.rs") {
            continue;
        }
        for (kind, prose) in prose(&path) {
            let (words, offences) = counts.entry(kind).or_default();
            for prose in prose {
                let found = markers::find(&prose.text);
                *words += found.words;
                offences.extend(found.markers.iter().map(|(line, marker)| {
                    format!("{}:{}: {marker}", shown(&path), prose.line + line)
                }));
            }
        }
    }
    let mut report = String::new();
    for (kind, (words, offences)) in counts {
        #[expect(clippy::cast_precision_loss, reason = "both are small")]
        let rate = offences.len() as f64 * 1000.0 / words as f64;
        if rate > MAX_RATE {
            let offences = offences.join("\n");
            writeln!(
                report,
                "\n{kind:?}: {rate:.2} markers in 1,000 words, over {MAX_RATE}:\n{offences}"
            )
            .expect("a string accepts every text");
        }
    }
    assert!(report.is_empty(), "{report}");
}
