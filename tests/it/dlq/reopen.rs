//! Discarded letters are opened again, one by one or with the whole operation that discarded them.

use redrive_tests::prelude::*;

use super::bury;

#[test]
fn one_discard_of_many_batches_is_reopened_as_a_whole() {
    let (test, db, mut client) = TestDatabase::with_handle();
    bury(&test, 1203);
    let first = db.listed_ids(&LetterFilter::new().limit(3));
    let three = LetterFilter::new().ids(first);
    assert_eq!(db.discards(&three).len(), 3);

    let (tell, told) = mpsc::channel();
    let watched = db.each_batch(move |so_far| {
        _ = tell.send((so_far.done, so_far.audit));
        ControlFlow::Continue(())
    });
    let discarded = watched.dlq().discard(&LetterFilter::new(), &maria());
    let discarded = discarded.unwrap();
    let audit = discarded.audit.expect("an audit record");
    assert_eq!(discarded.ids.len(), 1200);
    let expected = [500_u64, 1000, 1200].map(|count| (count, Some(audit)));
    assert!(told.try_iter().eq(expected));
    let records = "SELECT a.id, a.letters, a.batch_of FROM redrive.audit a \
                   WHERE a.verb = 'discard' ORDER BY a.id OFFSET 1";
    let records: Vec<(i64, i64, Option<i64>)> = client.rows(records, &[]);
    let counts: Vec<(i64, Option<i64>)> = records.iter().map(|r| (r.1, r.2)).collect();
    let expected = [(500, None), (500, Some(audit)), (200, Some(audit))];
    assert_eq!(counts, expected);
    assert_eq!(records[0].0, audit);

    // The record of any batch stands for the whole operation.
    for record in [audit, records[2].0] {
        let operation = LetterFilter::new().audit(record);
        assert_eq!(db.dlq().count(&operation).unwrap(), 1200);
    }
    let none = LetterFilter::new().audit(1 << 40);
    assert_eq!(db.dlq().count(&none).unwrap(), 0);
    let operation = LetterFilter::new().audit(audit);
    let reopened = db.dlq().reopen(&operation, &maria());
    assert_eq!(reopened.unwrap().ids.len(), 1200);
    assert_eq!(letters_in(&db, "orders", LetterState::Discarded), 3);
    assert_eq!(letters_in(&db, "orders", LetterState::Open), 1200);
    no_drift(&db);
}

#[test]
fn a_reopened_letter_keeps_its_history_and_its_quarantine() {
    let (test, queue) = TestDatabase::with_orders();
    let (db, mut client) = (queue.database(), test.client());
    let ids = letters(&queue, 2);
    let quarantine =
        "UPDATE redrive.dead_letters SET state = 'quarantined', alike = 3 WHERE id = $1";
    client.change(quarantine, &[&ids[1].get()]);
    let before = [db.letter(ids[0]), db.letter(ids[1])];
    let both = LetterFilter::new().ids(ids.clone());
    let discarded = db.dlq().discard(&both, &maria());
    assert_eq!(discarded.unwrap().ids.len(), 2);
    // Another event may follow the discard.
    client.sql("SELECT redrive.add_redaction('orders', NULL, '{/number}')");
    let redacted = db.dlq().redactions().apply(&both, &maria());
    assert_eq!(redacted.unwrap(), 2);
    let reopen = || db.dlq().reopen(&both, &Operator::new("joe@ops-2")).unwrap();
    assert_eq!(reopen().ids.len(), 2);
    assert_eq!(reopen(), Changed::default(), "they are open");
    for (before, state) in before
        .iter()
        .zip([LetterState::Open, LetterState::Quarantined])
    {
        let after = db.letter(before.id);
        assert_eq!(after.state, state);
        assert_eq!(after.discard_reason, None);
        assert_eq!(after.history, before.history);
        assert_eq!((after.alike, after.died_at), (before.alike, before.died_at));
        let events = after.events.iter();
        let events = events.map(|event| format!("{} by {}", event.event, event.about["by"]));
        let expected = [
            "discarded by \"maria@ops-1\"",
            "redacted by \"maria@ops-1\"",
            "reopened by \"joe@ops-2\"",
        ];
        assert!(events.eq(expected), "{after:?}");
    }
    no_drift(db);
}

#[test]
fn an_operation_no_longer_selects_a_letter_that_died_since() {
    let (_test, queue, ids) = TestDatabase::with_letters(2);
    let db = queue.database();
    db.dlq().discard(&LetterFilter::new(), &maria()).unwrap();
    let reopened = db.dlq().reopen(&LetterFilter::new(), &maria());
    let audit = reopened.unwrap().audit.expect("an audit record");
    let operation = LetterFilter::new().audit(audit);
    assert_eq!(db.dlq().count(&operation).unwrap(), 2);
    let one = only(ids[0]);
    db.redrives(&one);
    work_off(&queue, |_: &Job<Order>| {
        Err(Failure::reject("still broken"))
    });
    assert_eq!(db.listed_ids(&operation), [ids[1]]);
}
