//! Markers: phrases that plain English does not need.
//!
//! A marker is written as its words: `a|b` is one of two words, `!a|b` any word but these, `*` any
//! word, and `.` the end of a sentence. This file does not count itself.

use std::collections::HashMap;
use std::sync::LazyLock;

/// The phrases.
const PHRASES: &[&str] = &[
    "is|are|was|were|be|been|being told",
    "told of|about|apart|it|them|once|to",
    "tell|tells of|whether|which|that|apart|how",
    "so many|often|much|long !as",
    "of|on|for its|their|his|her|our|your|one's|my own",
    "of ours|yours|mine|theirs",
    "came|comes|come of",
    "take|takes|took note",
    "anew",
    "is|are of !type|course|interest|use|size|order|length|the",
    "what there is",
    "what is there",
    "there is|are nothing",
    "in so many words",
    "ever later|more|longer|less|larger|shorter",
    "by|of itself|themselves",
    "whoever|whatever|wherever",
    "nobody|somebody",
    "in vain",
    "to be had",
    "is had",
    "as a rule",
    "as good as",
    "as well as ever",
    "all the same",
    "for ever",
    "go|goes before",
    "at all",
    "go|goes on",
    "is no * of",
    "is nothing",
    "come|comes to an end",
    "at an end",
    "by word",
    "word|words for it",
    "stand|stands in|for|on|between|behind|above|below|before",
    "much|little of",
    "up to now",
    "that which",
    "those who|which",
    "he who",
    "look|looks|looked again",
    "look|looks|looked at it again",
    "say|says|said so",
    "made good",
    "mend|mends|mended|mending",
    "no patience",
    "as it is",
    "as they are .",
    "the more so",
    "no sooner",
    "hence|thereof|therein|thereby|whereupon",
];

/// A relative clause that is the subject of a sentence begins with one of these.
const HEADS: &[&str] = &["Who", "Whoever", "What", "Whatever", "Whichever"];

/// Words after which such a beginning is a title or a question.
const TITLES: &[&str] = &[
    "does", "do", "did", "should", "changed", "to", "you", "next", "can",
];

/// A word of a text.
struct Word<'a> {
    line: usize,
    text: &'a str,
    lower: String,
    /// The punctuation that follows.
    after: &'a str,
}

fn words(text: &str) -> Vec<Word<'_>> {
    let mut words: Vec<Word<'_>> = Vec::new();
    for (line, text) in (0..).zip(text.lines()) {
        for token in text.split_whitespace() {
            let start = token.trim_start_matches(|c: char| !c.is_alphanumeric());
            let word = start.trim_end_matches(|c: char| !c.is_alphanumeric());
            let after = &start[word.len()..];
            // Punctuation between two words ends a phrase, for example the border of a cell.
            if start.len() < token.len()
                && let Some(last) = words.last_mut()
                && last.after.is_empty()
            {
                last.after = ",";
            }
            if !word.is_empty() {
                words.push(Word {
                    line,
                    text: word,
                    lower: word.to_lowercase().replace("'s", ""),
                    after,
                });
            }
        }
    }
    words
}

/// Returns how many words match the phrase.
fn matched(words: &[Word<'_>], phrase: &str) -> Option<usize> {
    let mut taken: usize = 0;
    for part in phrase.split(' ') {
        let before = taken.checked_sub(1).map(|last| words[last].after);
        if part == "." {
            before.filter(|after| !after.is_empty())?;
            continue;
        }
        let next = words
            .get(taken)
            .filter(|_| before.is_none_or(str::is_empty));
        if let Some(not) = part.strip_prefix('!') {
            if next.is_some_and(|word| not.split('|').any(|not| word.lower == not)) {
                return None;
            }
            continue;
        }
        next.filter(|word| part == "*" || part.split('|').any(|part| word.lower == part))?;
        taken += 1;
    }
    Some(taken)
}

/// Whether the sentence that begins with these words has a relative clause as its subject.
fn has_headless_subject(words: &[Word<'_>]) -> bool {
    let sentence = words
        .iter()
        .position(|word| word.after.contains(['.', '?', '!', ':']))
        .map_or(words, |end| &words[..=end]);
    HEADS.contains(&words[0].text)
        && sentence.len() > 2
        && sentence
            .last()
            .is_some_and(|word| !word.after.contains('?'))
        && !TITLES.contains(&&*sentence[1].lower)
}

/// Returns the phrases by the words that can begin them.
fn by_first_word() -> HashMap<&'static str, Vec<&'static str>> {
    let mut index: HashMap<&str, Vec<&str>> = HashMap::new();
    for phrase in PHRASES {
        let first = phrase.split(' ').next().unwrap_or_default();
        for word in first.split('|') {
            index.entry(word).or_default().push(phrase);
        }
    }
    index
}

/// The markers in a text: each with its line, counted from zero.
pub(crate) struct Found {
    pub(crate) words: usize,
    pub(crate) markers: Vec<(usize, String)>,
}

pub(crate) fn find(text: &str) -> Found {
    static INDEX: LazyLock<HashMap<&str, Vec<&str>>> = LazyLock::new(by_first_word);
    let index = &*INDEX;
    let words = words(text);
    let mut markers = Vec::new();
    for place in 0..words.len() {
        let rest = &words[place..];
        for phrase in index.get(&*rest[0].lower).into_iter().flatten() {
            if let Some(taken) = matched(rest, phrase) {
                let found: Vec<&str> = rest[..taken].iter().map(|word| word.text).collect();
                markers.push((rest[0].line, found.join(" ")));
            }
        }
        if has_headless_subject(rest) {
            markers.push((rest[0].line, format!("{} {} …", rest[0].text, rest[1].text)));
        }
    }
    Found {
        words: words.len(),
        markers,
    }
}

#[test]
fn each_marker_is_found() {
    let found = |text: &str| find(text).markers.len();
    assert_eq!(found("The worker is told of\nit."), 2);
    assert_eq!(found("Who forgets it gets an error."), 1);
    assert_eq!(found("What does it do? What is a letter?"), 0);
    assert_eq!(found("so many jobs; so many as that"), 1);
    assert_eq!(found("It ends by itself, whatever happens."), 2);
    assert_eq!(found("It is. Told of nothing"), 1);
    assert_eq!(found("A worker claims one batch and settles it."), 0);
}
