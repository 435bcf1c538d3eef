//! `dlq reopen`: a dry run by default, and the same selections as `dlq discard`.

use redrive::dlq::LetterState;
use redrive_tests::{TestDatabase, letters_in};

use super::super::{letters, redrive};

#[test]
fn discarded_letters_are_reopened_by_condition_id_or_audit_record() {
    let db = TestDatabase::migrated();
    let queue = db.queue("orders");
    let ids = letters(&db, &queue, 5);
    let count = |state| letters_in(queue.database(), "orders", state);
    let discard = |which: &[&str]| {
        let tail = ["--reason", "tests", "--json"];
        let done = redrive(&db, &[&["dlq", "discard"], which, &tail].concat()).exits_with(0);
        done.lines()[0].clone()
    };
    let first = discard(&["--id", &ids[0].to_string()]);
    let second = discard(&["orders", "--yes"]);
    assert_eq!(
        (&first["letters"], &second["letters"]),
        (&1.into(), &4.into())
    );

    // A dry run lists the letters and the command that acts.
    let dry = redrive(&db, &["dlq", "reopen", "orders"]).exits_with(0);
    for text in [
        "5 discarded letters match; 5 would be reopened.",
        "redrive dlq reopen orders --yes",
    ] {
        assert!(dry.out.contains(text), "{}", dry.out);
    }
    let dry = redrive(&db, &["dlq", "reopen", "orders", "--dry-run", "--json"]).exits_with(0);
    assert_eq!(dry.lines()[0]["letters"], 5);
    assert_eq!(count(LetterState::Discarded), 5);

    // By audit record, which the audit prints.
    let audit = redrive(&db, &["audit", "--verb", "discard"]).exits_with(0);
    let record = second["audit"].to_string();
    assert!(
        audit
            .out
            .lines()
            .any(|line| line.split_whitespace().next() == Some(&*record)),
        "{}",
        audit.out
    );
    let operation = format!("audit={record}");
    let listed = redrive(&db, &["dlq", "list", &operation, "state=any", "--json"]).exits_with(0);
    assert_eq!(listed.lines().len(), 4);
    redrive(&db, &["dlq", "reopen", &operation, "--yes"]).exits_with(0);
    assert_eq!(count(LetterState::Discarded), 1);
    let none = redrive(&db, &["dlq", "reopen", &operation, "--yes"]).exits_with(1);
    assert!(
        none.err.contains("no discarded letter matches"),
        "{}",
        none.err
    );

    // By id, at once.
    let (closed, open) = (ids[0].to_string(), ids[1].to_string());
    let some = redrive(&db, &["dlq", "reopen", "--id", &closed, &open]).exits_with(1);
    assert!(some.out.contains("1 letter reopened"), "{}", some.out);
    let refused = format!("letter {open} was not reopened: it is open");
    assert!(some.err.contains(&refused), "{}", some.err);
    assert_eq!(count(LetterState::Open), 5);

    let shown = redrive(&db, &["dlq", "show", &closed]).exits_with(0);
    assert!(
        shown.out.contains("discarded by ") && shown.out.contains("reopened by "),
        "{}",
        shown.out
    );
    let open_ones = redrive(&db, &["dlq", "reopen", "orders", "state=open"]).exits_with(1);
    assert!(
        open_ones
            .err
            .contains("no letter in these states can be reopened"),
        "{}",
        open_ones.err
    );
}
