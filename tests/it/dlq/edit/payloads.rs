//! Edited payloads: merge, set, restore.

use redrive_tests::prelude::*;

use super::{merge, payload};

#[test]
fn an_edit_keeps_the_old_payload_with_operator_and_reason() {
    let (test, queue, ids) = TestDatabase::with_letters(3);
    let db = queue.database();
    let (dlq, eur) = (db.dlq(), merge(r#"{"currency": "EUR"}"#));
    let two = of_orders().limit(2);
    let edit = || dlq.edit(&two, &eur, &maria()).unwrap();
    let done = edit();
    assert_eq!(done.edited, ids[..2]);
    let edited = json!({ "number": 1, "currency": "EUR" });
    assert_eq!(payload(&queue, ids[0]), edited);
    assert_eq!(payload(&queue, ids[2]), json!({ "number": 3 }));

    // The same edit again changes nothing and makes no version.
    let again = edit();
    assert_eq!((again.edited.len(), again.unchanged), (0, 2));
    let versions = db.dlq().versions(ids[0]).unwrap();
    assert_eq!((versions.len(), versions[0].version), (1, 0));
    let before = versions[0].payload.as_ref().expect("JSON");
    assert_eq!(before.get(), r#"{"number":1}"#);
    assert_eq!(versions[0].person.as_deref(), Some("maria@ops-1"));
    assert_eq!(versions[0].reason.as_deref(), Some("INC-7"));

    let mut client = test.client();
    let record =
        "SELECT person, reason, letters, about, filter FROM redrive.audit WHERE verb = 'edit'";
    let record: (String, String, i64, Value, Value) = client.row(record, &[]);
    let (person, reason) = ("maria@ops-1".to_owned(), "INC-7".to_owned());
    let (about, filter) = (json!({ "how": "merge" }), json!({ "queue": "orders" }));
    assert_eq!(record, (person, reason, 2, about, filter));
    let letter = "SELECT edits, events -> -1 FROM redrive.dead_letters WHERE id = $1";
    let (edits, event): (i32, Value) = client.row(letter, &[&ids[0].get()]);
    assert_eq!(edits, 1);
    let by = json!({"event": "edited", "by": "maria@ops-1", "reason": "INC-7", "version": 1});
    holds(&event, &by);
}

#[test]
fn an_edit_of_a_redriven_job_is_a_version_of_its_letter() {
    let (_test, queue) = TestDatabase::with_orders();
    let id = letters(&queue, 1)[0];
    let db = queue.database();
    db.edits(&only(id), &Edit::set(r#"{"number": 2}"#).unwrap());
    db.redrives(&only(id));
    let of_job = Edit::set(r#"{"number": 5}"#).unwrap();
    let jobs = db.admin().jobs();
    let edited = jobs.edit(&JobFilter::new(), &of_job, &maria());
    assert_eq!(edited.unwrap().edited, [id]);
    work_off(&queue, |_: &Job<Order>| Err(Failure::reject("no")));
    let versions = db.dlq().versions(id).unwrap();
    let kept: Vec<u32> = versions.iter().map(|kept| kept.version).collect();
    assert_eq!(kept, [0, 1]);
    assert_eq!(payload(&queue, id), json!({ "number": 5 }));
    assert_eq!(db.restores(&only(id), None), [id]);
    assert_eq!(payload(&queue, id), json!({ "number": 2 }));
}
