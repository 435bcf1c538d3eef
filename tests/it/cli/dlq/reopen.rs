//! `dlq reopen`: a dry run by default, and the same selections as `dlq discard`.

use redrive_tests::prelude::*;

use super::super::with_letters;

#[test]
fn discarded_letters_are_reopened_by_condition_id_or_audit_record() {
    let (db, queue, ids) = with_letters(5);
    let discard = |which: &str| format!("dlq discard {which} --reason tests --json");
    db.run(discard(&ids[0].to_string()));
    let record = db.run(discard("orders --yes")).json()["audit"].to_string();

    db.run("dlq reopen orders")
        .shows("5 discarded letters match; 5 would be reopened.")
        .shows("To act, add --yes.");
    // With a limit, it lists those that would be taken.
    let (oldest, newest) = (ids[2], ids[4]);
    let early = "UPDATE redrive.dead_letters SET died_at = '2020-01-01' WHERE id = $1";
    db.client().change(early, &[&oldest.get()]);
    db.run("dlq reopen orders --limit 1")
        .shows(format!(" {oldest}  orders"))
        .hides(format!(" {newest}  orders"));
    assert_eq!(in_state(&queue, LetterState::Discarded), 5);

    // The audit prints the record of the second operation.
    let audit = db.run("audit --verb discard").out;
    let mut records = audit
        .lines()
        .filter_map(|line| line.split_whitespace().next());
    assert!(records.any(|id| id == record), "{audit}");
    let reopen = format!("dlq reopen audit={record} --yes");
    db.run(&reopen);
    assert_eq!(in_state(&queue, LetterState::Discarded), 1);
    db.fails(1, reopen).tells("no discarded letter matches");

    // By id, at once.
    let (closed, open) = (ids[0], ids[1]);
    db.fails(1, format!("dlq reopen {closed} {open}"))
        .shows("1 letter reopened")
        .tells(format!("letter {open} was not reopened: it is open"));
    assert_eq!(in_state(&queue, LetterState::Open), 5);
    db.run(format!("dlq show {closed}"))
        .shows("discarded by ")
        .shows("reopened by ");
    db.fails(1, "dlq reopen orders state=open")
        .tells("no discarded letter matches: 0 discarded, 5 open\n");
}
