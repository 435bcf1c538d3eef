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

/// Two messages: whether they are of one cause and of one source, and whether they got one group.
struct Pair {
    is_same: bool,
    is_near: bool,
    is_joined: bool,
}

/// Stores the messages as letters of one class and compares their groups.
fn pairs(corpus: &'static str) -> Vec<Pair> {
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
    let placed: Vec<_> = messages.iter().zip(groups).collect();
    let all = (0..placed.len()).flat_map(|n| placed[n + 1..].iter().map(move |other| (n, other)));
    let pairs = all.map(|(n, (other, their_group))| {
        let (one, group) = &placed[n];
        Pair {
            is_same: one.cause == other.cause,
            is_near: one.source == other.source,
            is_joined: group == their_group,
        }
    });
    pairs.collect()
}

/// The pairs that count for a share.
type Which = fn(&Pair) -> bool;

#[test]
fn the_fingerprint_groups_error_messages_as_people_do() {
    let shares: [(&str, Which); 4] = [
        ("all", |_| true),
        ("recall", |pair| pair.is_same),
        ("precision", |pair| pair.is_joined),
        ("neighbours", |pair| pair.is_near && !pair.is_same),
    ];
    for (name, corpus) in [("studied", STUDIED), ("withheld", WITHHELD)] {
        let pairs = pairs(corpus);
        for (share, counts) in shares {
            let counted = pairs.iter().filter(|pair| counts(pair));
            let (right, wrong): (Vec<&Pair>, Vec<&Pair>) =
                counted.partition(|pair| pair.is_same == pair.is_joined);
            let all = right.len() + wrong.len();
            #[expect(clippy::cast_precision_loss, reason = "a corpus has few pairs")]
            let correct = right.len() as f64 / all as f64;
            assert!(correct >= LEAST, "{name}: {share} {correct:.4} of {all}");
        }
    }
}
