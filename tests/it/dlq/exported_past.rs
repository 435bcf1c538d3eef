//! An exported letter keeps its history and counts when its line is captured.

use redrive::dlq::{ForeignFailure, Letter, LetterFilter};
use redrive_tests::{TestDatabase, letters, no_drift, ran};
use serde_json::Value;

use super::archive::{archive_all, redrive_in_vain};

#[test]
fn an_exported_letter_keeps_its_story_in_another_database() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let id = letters(&queue, 1)[0];
    redrive_in_vain(&queue, id, "Other");
    redrive_in_vain(&queue, id, "Other");
    let captured = ForeignFailure::new("kafka", "1", "orders", "order", &b"{ \"number\":1}"[..]);
    let captured = db.dlq().capture(&captured).unwrap().id();
    test.client()
        .execute(
            "UPDATE redrive.dead_letters SET redacted = '{/card}' WHERE id = $1",
            &[&id.get()],
        )
        .unwrap();
    let exported = ran(&test, &["dlq", "export", "orders"]).exits_with(0).out;
    archive_all(db);
    let from_archive = ran(&test, &["dlq", "archive", "export", "orders"])
        .exits_with(0)
        .out;

    for lines in [exported, from_archive] {
        let other = TestDatabase::migrated();
        let path = std::env::temp_dir().join(format!("{}.story.ndjson", other.name()));
        std::fs::write(&path, lines).unwrap();
        let capture = ["dlq", "capture", "--file", path.to_str().expect("UTF-8")];
        assert_eq!(
            ran(&other, &capture).exits_with(0).out,
            "2 failures captured, 0 already known\n"
        );
        assert_eq!(
            ran(&other, &capture).exits_with(0).out,
            "0 failures captured, 2 already known\n"
        );
        std::fs::remove_file(&path).unwrap();
        let there = other.open();
        let found = |source: &str| -> Letter {
            let filter = LetterFilter::new().source(source);
            there
                .dlq()
                .list(&filter)
                .unwrap()
                .pop()
                .expect("the letter")
        };
        let own = found("redrive:letter");
        let before = db.dlq().archived_letter(id).unwrap();
        if let Some(before) = before {
            assert_eq!(own.history, before.letter.history);
            assert_eq!(
                (own.cause, own.died_at),
                (before.letter.cause, before.letter.died_at)
            );
        }
        assert_eq!(
            (own.generation, own.deaths, own.alike, own.failed_redrives),
            (2, 3, 1, 2)
        );
        assert_eq!(own.history.len(), 3);
        assert_eq!(own.redacted, ["/card"]);
        assert_eq!(own.events.last().expect("an event").event, "imported");
        assert!(own.raw.is_none());
        assert_eq!(found("kafka").raw.as_deref(), Some(&b"{ \"number\":1}"[..]));
        no_drift(&there);
    }
    assert!(db.dlq().archived_letter(captured).unwrap().is_some());
}

#[test]
fn a_line_with_an_impossible_past_is_reported() {
    let (test, queue) = TestDatabase::with_orders();
    letters(&queue, 1);
    let line = ran(&test, &["dlq", "export", "orders"]).exits_with(0).out;
    let mut line: Value = serde_json::from_str(&line).unwrap();
    line["letter"]["max_attempts"] = 0.into();
    let path = std::env::temp_dir().join(format!("{}.past.ndjson", test.name()));
    std::fs::write(&path, line.to_string()).unwrap();
    let capture = ["dlq", "capture", "--file", path.to_str().expect("UTF-8")];
    let refused = ran(&test, &capture).exits_with(1);
    std::fs::remove_file(&path).unwrap();
    assert!(
        refused.err.contains("line 1: `max_attempts`"),
        "{}",
        refused.err
    );
}
