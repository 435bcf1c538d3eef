//! The fingerprint, measured with error messages of real libraries.
//!
//! Each pair of messages is judged: are they one group, and should they be? Most pairs have nothing to
//! do with each other, so the pairs of one cause and the pairs of one source count by themselves.

use redrive_tests::prelude::*;

/// The half that the rules were written with.
const STUDIED: &str = include_str!("corpus/studied.txt");
/// The half that is only measured.
const WITHHELD: &str = include_str!("corpus/withheld.txt");
/// The least share of correct pairs.
const LEAST: f64 = 0.97;

struct Message {
    /// The library or server that says it, the first word of the heading.
    source: &'static str,
    cause: &'static str,
    text: &'static str,
}

fn messages(corpus: &'static str) -> Vec<Message> {
    let mut cause = "";
    let mut messages = Vec::new();
    for line in corpus.lines() {
        if let Some(heading) = line.strip_prefix("= ") {
            cause = heading;
        } else if !line.is_empty() && !line.starts_with('#') {
            let (source, _) = cause.split_once(' ').expect("a source and a cause");
            messages.push(Message {
                source,
                cause,
                text: line,
            });
        }
    }
    messages
}

/// The pairs of a corpus by truth and prediction.
#[derive(Debug, Default)]
struct Confusion {
    joined: u32,
    split: u32,
    merged: u32,
    apart: u32,
    /// The pairs of two causes of one source that are in one group, and in two.
    confused: u32,
    told_apart: u32,
}

fn share(part: u32, rest: u32) -> f64 {
    f64::from(part) / f64::from((part + rest).max(1))
}

impl Confusion {
    fn correct(&self) -> f64 {
        share(self.joined + self.apart, self.split + self.merged)
    }

    fn precision(&self) -> f64 {
        share(self.joined, self.merged)
    }

    fn recall(&self) -> f64 {
        share(self.joined, self.split)
    }

    fn neighbours_apart(&self) -> f64 {
        share(self.told_apart, self.confused)
    }
}

/// Stores the messages as letters of one class and compares their groups.
fn measure(corpus: &'static str) -> Confusion {
    let messages = messages(corpus);
    let texts: Vec<&str> = messages.iter().map(|message| message.text).collect();
    let test = TestDatabase::migrated();
    let groups: Vec<i64> = test.client().column(
        "WITH letters AS (
             INSERT INTO redrive.dead_letters
                 (queue, kind, cause, error_class, error_message, payload, enqueued_at)
             SELECT 'q', 'k', 'exhausted', 'E', m.text, '{}', now()
             FROM unnest($1::text[]) WITH ORDINALITY AS m (text, place) ORDER BY m.place
             RETURNING id, group_id)
         SELECT group_id FROM letters ORDER BY id",
        &[&texts],
    );
    let mut pairs = Confusion::default();
    for (n, one) in messages.iter().enumerate() {
        for (m, other) in messages.iter().enumerate().skip(n + 1) {
            let (same, predicted) = (one.cause == other.cause, groups[n] == groups[m]);
            match (same, predicted) {
                (true, true) => pairs.joined += 1,
                (true, false) => pairs.split += 1,
                (false, true) => pairs.merged += 1,
                (false, false) => pairs.apart += 1,
            }
            match (same || one.source != other.source, predicted) {
                (true, _) => {}
                (false, true) => pairs.confused += 1,
                (false, false) => pairs.told_apart += 1,
            }
        }
    }
    pairs
}

#[test]
fn the_fingerprint_groups_error_messages_as_people_do() {
    for (name, corpus) in [("studied", STUDIED), ("withheld", WITHHELD)] {
        let pairs = measure(corpus);
        for share in [
            pairs.correct(),
            pairs.recall(),
            pairs.precision(),
            pairs.neighbours_apart(),
        ] {
            assert!(share >= LEAST, "{name}: {share:.4}, {pairs:?}");
        }
    }
}
