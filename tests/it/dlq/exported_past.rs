//! An exported letter keeps its history and counts when its line is captured.

use redrive_tests::prelude::*;

use super::archive::{archive_all, redrive_in_vain};

/// Captures the lines of a file, of which so many are new.
#[track_caller]
fn imports(test: &TestDatabase, file: &TempFile, new: u32, known: u32) {
    let captured = test.run(format!("dlq capture --file {file}"));
    captured.prints(format!("{new} failures captured, {known} already known\n"));
}

#[test]
fn an_exported_letter_keeps_its_story_in_another_database() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let id = letters(&queue, 1)[0];
    redrive_in_vain(&queue, id, "Other");
    redrive_in_vain(&queue, id, "Other");
    let captured = ForeignFailure::new("kafka", "1", "orders", "order", &b"{ \"number\":1}"[..]);
    let captured = db.captures(&captured);
    let payload = r#"{"n": 12345678901234567890.125, "x": null}"#;
    db.edits(&only(id), &Edit::set(payload).unwrap());
    let redact = "UPDATE redrive.dead_letters SET redacted = '{/card}' WHERE id = $1";
    test.client().change(redact, &[&id.get()]);
    let exported = test.run("dlq export orders").out;
    archive_all(db);
    let from_archive = test.run("dlq archive export orders").out;

    for lines in [exported, from_archive] {
        let other = TestDatabase::migrated();
        // A newer version may export more.
        let of_newer = lines.replace(r#""letter":{"#, r#""letter":{"newer":5000000000,"#);
        assert_ne!(of_newer, lines);
        let file = TempFile::of(of_newer);
        imports(&other, &file, 2, 0);
        imports(&other, &file, 0, 2);
        let there = other.open();
        let deaths = "SELECT count(*) FROM redrive.metric_totals() WHERE metric ~ 'dead_lettered|captured|dlq_errors'";
        let counted = scalar(&mut other.client(), deaths);
        assert_eq!(counted, 0, "they were counted there");
        let found = |source: &str| -> Letter {
            let filter = LetterFilter::new().source(source);
            there.listed(&filter).pop().expect("the letter")
        };
        let own = found("redrive:letter");
        let before = db.dlq().archived_letter(id).unwrap();
        if let Some(before) = before {
            assert_eq!((own.cause, own.died_at), (before.cause, before.died_at));
            assert_eq!(own.history, before.history);
        }
        assert_eq!(own.position, Some(id.to_string()));
        assert_eq!(content(&own), Some(payload));
        let counts = (own.generation, own.deaths, own.alike, own.failed_redrives);
        assert_eq!(counts, (2, 3, 1, 2));
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
fn an_imported_letter_is_of_no_group_of_the_other_database_and_can_be_redriven() {
    let (test, queue) = TestDatabase::with_orders();
    let id = letters(&queue, 1)[0];
    redrive_in_vain(&queue, id, "Other");
    // The clock of that server is ahead.
    let ahead = "UPDATE redrive.dead_letters SET died_at = now() + interval '1 day'";
    test.sql(ahead);
    let file = TempFile::of(test.run("dlq export orders").out);

    let other = TestDatabase::migrated();
    other.run(format!("dlq capture --file {file}"));
    let there = other.open();
    let letter = there.listed(&LetterFilter::new()).pop().expect("one");
    let mut events = letter.events.iter();
    let died = events.find(|event| event.event == "died").expect("a death");
    assert!(!died.about.contains_key("group"), "{died:?}");
    assert_eq!(there.redrives(&LetterFilter::new()).redriven, [letter.id]);
}

#[test]
fn a_record_of_any_generation_keeps_no_job_from_dying() {
    let (test, queue) = TestDatabase::with_orders();
    let captured = ForeignFailure::new("kafka", "1", "orders", "order", &b"{\"number\":1}"[..]);
    let id = queue.captures(&captured);
    // An imported line may have it.
    let odd = format!(r#"[{{"attempt": 1, "generation": {}}}]"#, u32::MAX);
    test.sql(&format!(
        "UPDATE redrive.dead_letters SET history = '{odd}'"
    ));
    redrive_in_vain(&queue, id, "Other");
    let letter = queue.letter(id);
    assert_eq!((letter.state, letter.history.len()), (LetterState::Open, 3));
}

#[test]
fn a_closed_letter_stays_closed_in_another_database() {
    let (test, queue, ids) = TestDatabase::with_letters(5);
    let quarantine =
        "UPDATE redrive.dead_letters SET state = 'quarantined', alike = 3 WHERE id = $1";
    test.client().change(quarantine, &[&ids[2].get()]);
    queue.discards(&LetterFilter::new().ids([ids[1], ids[2]]));
    queue.redrives(&LetterFilter::new().ids([ids[3]]));
    finish(&queue, willing(&queue));
    queue.redrives(&LetterFilter::new().ids([ids[4]]));
    let file = TempFile::of(test.run("dlq export orders state=any").out);

    let other = TestDatabase::migrated();
    let there = other.open();
    let in_states = || {
        use LetterState::{Discarded, Open, Quarantined, Recovered};
        [Open, Quarantined, Discarded, Recovered].map(|state| letters_in(&there, "orders", state))
    };
    for (new, known) in [(5, 0), (0, 5)] {
        imports(&other, &file, new, known);
        // The job that was live is an open letter.
        assert_eq!(in_states(), [2, 0, 2, 1]);
    }
    let discarded = LetterFilter::new().state(LetterState::Discarded);
    for letter in there.listed(&discarded) {
        assert_eq!(letter.discard_reason.as_deref(), Some("a test"));
    }
    other.run("dlq reopen orders --yes");
    assert_eq!(in_states(), [3, 1, 0, 1]);
    no_drift(&there);
}

#[test]
fn a_closed_letter_hides_no_later_line_of_it_that_is_open() {
    let (test, queue, ids) = TestDatabase::with_letters(1);
    queue.discards(&only(ids[0]));
    let export = || test.run("dlq export orders state=any").out;
    let closed = export();
    test.run("dlq reopen orders --yes");
    let file = TempFile::of(closed + &export());
    let other = TestDatabase::migrated();
    other.run(format!("dlq capture --file {file}"));
    assert_eq!(letters_in(&other.open(), "orders", LetterState::Open), 1);
}

#[test]
fn a_line_with_an_impossible_past_is_reported() {
    let (test, _, _) = TestDatabase::with_letters(1);
    let line = test.run("dlq export orders").out;
    let test = TestDatabase::migrated();
    let mut line: Value = serde_json::from_str(&line).unwrap();
    line["letter"]["deaths"] = i32::MAX.into();
    let file = TempFile::of(line.to_string());
    test.fails(1, format!("dlq capture --file {file}"))
        .tells("deaths of an exported letter is 2147483647; the limit is 1000000000");
    for (member, value) in [
        ("deaths", Value::from(0)),
        ("max_attempts", 1001.into()),
        ("cause", "boredom".into()),
        ("died_at", "soon".into()),
        ("enqueued_at", "-infinity".into()),
        ("events", 5.into()),
    ] {
        let mut line = line.clone();
        line["letter"]["deaths"] = 1.into();
        line["letter"][member] = value;
        let other = r#"{"source": "s", "position": "1", "queue": "q", "kind": "k", "raw": ""}"#;
        let file = TempFile::of(format!("{line}\n{other}"));
        test.fails(1, format!("dlq capture --file {file}"))
            .tells("could not capture a failure of `redrive:")
            .tells("skipped 1 bad line");
    }
    assert_eq!(letters_in(&test.open(), "q", LetterState::Open), 1);
}

/// Its line stands for the letter itself, or for the job of a letter that is redriving, whether it died again meanwhile
/// or not.
#[test]
fn a_letter_that_the_database_still_has_is_known() {
    let (test, queue, ids) = TestDatabase::with_letters(4);
    let file = TempFile::of(test.run("dlq export orders state=any").out);
    redrive_in_vain(&queue, ids[0], "Other");
    queue.redrives(&LetterFilter::new().ids([ids[1]]));
    queue.discards(&LetterFilter::new().ids([ids[2]]));
    let before = format!("{:?}", queue.listed(&LetterFilter::new()));
    imports(&test, &file, 0, 4);
    let after = format!("{:?}", queue.listed(&LetterFilter::new()));
    assert_eq!(after, before);
    // Of a letter that was deleted, a line is a new one. Another database gives it an id that is in the file.
    let delete = "DELETE FROM redrive.dead_letters WHERE id = $1";
    test.client().change(delete, &[&ids[3].get()]);
    test.run(format!("dlq capture --file {file}"))
        .prints("1 failure captured, 3 already known\n");
    let other = TestDatabase::migrated();
    imports(&other, &file, 4, 0);
    imports(&other, &file, 0, 4);
}
