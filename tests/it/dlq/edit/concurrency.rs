//! Edits that race other edits and redrives.

use std::thread;

use redrive::dlq::LetterFilter;
use redrive::{JobId, Operator};
use redrive_tests::{TestDatabase, letters};
use serde_json::json;

use super::{merge, payload};

#[test]
fn concurrent_edits_lose_no_change() {
    let (test, queue) = TestDatabase::with_orders();
    let ids = letters(&queue, 3);
    let editors: Vec<_> = ["a", "b"]
        .into_iter()
        .map(|name| {
            let db = test.open();
            thread::spawn(move || {
                for n in 0..20 {
                    let edit = merge(&format!("{{\"{name}{n}\": {n}}}"));
                    let done = db
                        .dlq()
                        .edit(
                            &LetterFilter::new().queue("orders"),
                            &edit,
                            &Operator::default(),
                        )
                        .unwrap();
                    // An editor that always loses the race gives up with an error.
                    for id in done.skipped {
                        while db
                            .dlq()
                            .edit(&LetterFilter::new().ids([id]), &edit, &Operator::default())
                            .unwrap()
                            .edited
                            .is_empty()
                        {}
                    }
                }
            })
        })
        .collect();
    for editor in editors {
        editor.join().expect("an editor");
    }
    for (id, number) in ids.iter().zip(1..) {
        let mut all = json!({ "number": number });
        for n in 0..20 {
            all[format!("a{n}")] = json!(n);
            all[format!("b{n}")] = json!(n);
        }
        assert_eq!(payload(&queue, *id), all);
        assert_eq!(queue.database().dlq().versions(*id).unwrap().len(), 40);
    }
    let row = test
        .client()
        .query_one(
            "SELECT sum(letters)::bigint FROM redrive.audit WHERE verb = 'edit'",
            &[],
        )
        .unwrap();
    assert_eq!(row.get::<_, i64>(0), 120);
}

#[test]
fn an_edit_that_races_a_redrive_applies_before_it_or_fails() {
    let (test, queue) = TestDatabase::with_orders();
    let ids = letters(&queue, 300);
    let editor = {
        let db = test.open();
        thread::spawn(move || {
            let edit = merge(r#"{"fixed": true}"#);
            db.dlq()
                .edit(
                    &LetterFilter::new().queue("orders"),
                    &edit,
                    &Operator::default(),
                )
                .unwrap()
        })
    };
    let mut redriven = 0;
    while redriven < ids.len() {
        let some = LetterFilter::new().queue("orders").limit(7);
        redriven += queue
            .database()
            .dlq()
            .redrive(&some, &Operator::default())
            .unwrap()
            .redriven
            .len();
    }
    let done = editor.join().expect("the editor");
    assert_eq!(done.refused, []);
    let row = test
        .client()
        .query_one(
            "SELECT count(*) AS jobs,
                    count(*) FILTER (WHERE j.payload::text = l.payload::text) AS same,
                    count(*) FILTER (WHERE (l.edits = 1) = (j.payload::jsonb ? 'fixed')) AS consistent,
                    count(*) FILTER (WHERE l.edits = 1) AS edited,
                    (SELECT count(*) FROM redrive.letter_versions) AS versions
             FROM redrive.live_jobs j JOIN redrive.dead_letters l ON l.id = j.id",
            &[],
        )
        .unwrap();
    let number = |column| row.get::<_, i64>(column);
    assert_eq!(
        (number("jobs"), number("same"), number("consistent")),
        (300, 300, 300)
    );
    assert_eq!(number("edited"), number("versions"));
    assert_eq!(number("edited"), i64::try_from(done.edited.len()).unwrap());
}

#[test]
fn an_edit_that_expects_another_version_is_rejected_in_sql() {
    let (test, queue) = TestDatabase::with_orders();
    let id = letters(&queue, 1)[0].get();
    let mut client = test.client();
    let edited: i32 = client
        .query_one(
            "SELECT redrive.edit_letter($1, '{\"number\": 5}', 'a typo', 'maria', 0)",
            &[&id],
        )
        .unwrap()
        .get(0);
    assert_eq!(edited, 1);
    for (arguments, why) in [
        (
            format!("{id}, '1', expected_edits => 0"),
            "was edited in the meantime",
        ),
        (format!("{id}, NULL"), "NULL"),
        ("424242, '1'".to_owned(), "letter 424242 does not exist"),
    ] {
        let error = client
            .query(&format!("SELECT redrive.edit_letter({arguments})"), &[])
            .expect_err(&arguments);
        let message = error
            .as_db_error()
            .expect("an answer of the server")
            .message();
        assert!(
            message.starts_with("redrive: ") && message.contains(why),
            "{arguments}: {message}"
        );
    }
    assert_eq!(payload(&queue, JobId::new(id)), json!({ "number": 5 }));
}
