//! Edited payloads: merge, set, restore.

use redrive::dlq::{Edit, LetterFilter};
use redrive::{JobId, Operator};
use redrive_tests::{TestDatabase, letters};
use serde_json::{Value, json};

use super::{merge, payload};

#[test]
fn an_edit_keeps_the_old_payload_with_operator_and_reason() {
    let (test, queue) = TestDatabase::with_orders();
    let ids = letters(&queue, 3);
    let db = queue.database();
    let operator = Operator::new("maria@ops-1").reason("bug 812");
    let some = LetterFilter::new().queue("orders").limit(2);
    let done = db
        .dlq()
        .edit(&some, &merge(r#"{"currency": "EUR"}"#), &operator)
        .unwrap();
    assert_eq!(done.edited, ids[..2]);
    assert_eq!(
        payload(&queue, ids[0]),
        json!({ "number": 1, "currency": "EUR" })
    );
    assert_eq!(payload(&queue, ids[2]), json!({ "number": 3 }));

    // The same edit again changes nothing and makes no version.
    let again = db
        .dlq()
        .edit(&some, &merge(r#"{"currency": "EUR"}"#), &operator)
        .unwrap();
    assert_eq!((again.edited.len(), again.unchanged), (0, 2));
    let versions = db.dlq().versions(ids[0]).unwrap();
    assert_eq!(versions.len(), 1);
    assert_eq!(versions[0].version, 0);
    assert_eq!(
        versions[0].payload.as_ref().unwrap().get(),
        r#"{"number":1}"#
    );
    assert_eq!(versions[0].person.as_deref(), Some("maria@ops-1"));
    assert_eq!(versions[0].reason.as_deref(), Some("bug 812"));

    let mut client = test.client();
    let row = client
        .query_one(
            "SELECT verb, person, reason, letters, about, filter FROM redrive.audit WHERE verb = 'edit'",
            &[],
        )
        .unwrap();
    assert_eq!(row.get::<_, &str>("person"), "maria@ops-1");
    assert_eq!(row.get::<_, &str>("reason"), "bug 812");
    assert_eq!(row.get::<_, i64>("letters"), 2);
    assert_eq!(row.get::<_, Value>("about"), json!({ "how": "merge" }));
    assert_eq!(row.get::<_, Value>("filter"), json!({ "queue": "orders" }));
    let row = client
        .query_one(
            "SELECT edits, events -> -1 AS event FROM redrive.dead_letters WHERE id = $1",
            &[&ids[0].get()],
        )
        .unwrap();
    assert_eq!(row.get::<_, i32>("edits"), 1);
    let event: Value = row.get("event");
    assert_eq!(
        (
            &event["event"],
            &event["by"],
            &event["reason"],
            &event["version"]
        ),
        (
            &json!("edited"),
            &json!("maria@ops-1"),
            &json!("bug 812"),
            &json!(1)
        )
    );
}

#[test]
fn a_patch_that_does_not_apply_reports_an_error_and_changes_nothing() {
    let (_test, queue) = TestDatabase::with_orders();
    let ids = letters(&queue, 4);
    let db = queue.database();
    let patch = Edit::patch(
        r#"[{"op": "test", "path": "/number", "value": 2}, {"op": "add", "path": "/ok", "value": true}]"#,
    )
    .unwrap();
    let done = db
        .dlq()
        .edit(
            &LetterFilter::new().queue("orders"),
            &patch,
            &Operator::default(),
        )
        .unwrap();
    assert_eq!(done.edited, [ids[1]]);
    assert_eq!(done.refused.len(), 1, "{:?}", done.refused);
    assert_eq!(
        (done.refused[0].letters, &done.refused[0].ids[..]),
        (3, &[ids[0], ids[2], ids[3]][..])
    );
    assert_eq!(payload(&queue, ids[1]), json!({ "number": 2, "ok": true }));
    assert_eq!(payload(&queue, ids[0]), json!({ "number": 1 }));
}

#[test]
fn an_edit_keeps_long_numbers_or_leaves_the_letter_unchanged() {
    let (test, queue) = TestDatabase::with_orders();
    let ids = letters(&queue, 2);
    let long = r#"{"n": 12345678901234567890123.5, "a": 1}"#;
    let mut client = test.client();
    client
        .execute(
            "UPDATE redrive.dead_letters SET payload = $1::text::jsonb WHERE id = $2",
            &[&long, &ids[0].get()],
        )
        .unwrap();
    let db = queue.database();
    let done = db
        .dlq()
        .edit(
            &LetterFilter::new().queue("orders"),
            &merge(r#"{"a": 2}"#),
            &Operator::default(),
        )
        .unwrap();
    assert_eq!((&done.edited[..], done.refused.len()), (&ids[1..], 1));
    let stored = |client: &mut postgres::Client| -> String {
        client
            .query_one(
                "SELECT payload ->> 'n' FROM redrive.dead_letters WHERE id = $1",
                &[&ids[0].get()],
            )
            .unwrap()
            .get(0)
    };
    assert_eq!(stored(&mut client), "12345678901234567890123.5");
    // A complete payload is stored unchanged.
    let set = Edit::set(r#"{"n": 98765432109876543210987.25}"#).unwrap();
    db.dlq()
        .edit(
            &LetterFilter::new().ids([ids[0]]),
            &set,
            &Operator::default(),
        )
        .unwrap();
    assert_eq!(stored(&mut client), "98765432109876543210987.25");
}

#[test]
fn an_old_version_is_restored_by_its_number() {
    let (_test, queue) = TestDatabase::with_orders();
    let id = letters(&queue, 1)[0];
    let db = queue.database();
    for n in 1..=3 {
        let set = Edit::set(&format!("{{\"v\": {n}}}")).unwrap();
        db.dlq()
            .edit(&LetterFilter::new().ids([id]), &set, &Operator::default())
            .unwrap();
    }
    assert_eq!(
        db.dlq()
            .restore_version(id, Some(1), &Operator::default())
            .unwrap(),
        4
    );
    assert_eq!(payload(&queue, id), json!({ "v": 1 }));
    assert_eq!(
        db.dlq()
            .restore_version(id, Some(0), &Operator::default())
            .unwrap(),
        5
    );
    assert_eq!(payload(&queue, id), json!({ "number": 1 }));
    let kept: Vec<u32> = db
        .dlq()
        .versions(id)
        .unwrap()
        .iter()
        .map(|kept| kept.version)
        .collect();
    assert_eq!(kept, [0, 1, 2, 3, 4]);
    for (id, version) in [(id, Some(5)), (id, Some(99)), (JobId::new(424_242), None)] {
        let error = db
            .dlq()
            .restore_version(id, version, &Operator::default())
            .expect_err("none");
        assert!(error.is_invalid(), "{error:?}");
    }
}
