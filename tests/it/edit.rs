//! Edit: new payloads, every version kept, and nothing lost between two who act at once.

use std::thread;

use redrive::{Act, Captured, Edit, JobId, LetterState, Letters, Previewed, Queue};
use redrive_tests::{TestDatabase, letters, letters_in, ran};
use serde_json::{Value, json};

/// What a letter holds.
fn payload(queue: &Queue, id: JobId) -> Value {
    let letter = queue.database().letter(id).unwrap().expect("a letter");
    serde_json::from_str(letter.payload.expect("a payload").get()).unwrap()
}

fn merge(json: &str) -> Edit {
    Edit::merge(json).expect("a merge patch")
}

#[test]
fn an_edit_keeps_what_was_there_with_who_and_why() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let ids = letters(&queue, 3);
    let db = queue.database();
    let act = Act::new().person("maria@ops-1").why("bug 812");
    let some = Letters::queue("orders").limit(2);
    let done = db
        .edit(&some, &merge(r#"{"currency": "EUR"}"#), &act)
        .unwrap();
    assert_eq!(done.edited, ids[..2]);
    assert_eq!(
        payload(&queue, ids[0]),
        json!({ "number": 1, "currency": "EUR" })
    );
    assert_eq!(payload(&queue, ids[2]), json!({ "number": 3 }));

    // The same again changes nothing, and makes no version.
    let again = db
        .edit(&some, &merge(r#"{"currency": "EUR"}"#), &act)
        .unwrap();
    assert_eq!((again.edited.len(), again.unchanged), (0, 2));
    let versions = db.versions(ids[0]).unwrap();
    assert_eq!(versions.len(), 1);
    assert_eq!(versions[0].version, 0);
    assert_eq!(
        versions[0].payload.as_ref().unwrap().get(),
        r#"{"number": 1}"#
    );
    assert_eq!(versions[0].person.as_deref(), Some("maria@ops-1"));
    assert_eq!(versions[0].why.as_deref(), Some("bug 812"));

    let mut client = test.client();
    let row = client
        .query_one(
            "SELECT verb, person, why, letters, about, filter FROM redrive.audit WHERE verb = 'edit'",
            &[],
        )
        .unwrap();
    assert_eq!(row.get::<_, &str>("person"), "maria@ops-1");
    assert_eq!(row.get::<_, &str>("why"), "bug 812");
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
            &event["why"],
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
fn a_patch_that_does_not_fit_leaves_the_letter_and_says_why() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let ids = letters(&queue, 4);
    let db = queue.database();
    let patch = Edit::patch(
        r#"[{"op": "test", "path": "/number", "value": 2}, {"op": "add", "path": "/ok", "value": true}]"#,
    )
    .unwrap();
    let done = db
        .edit(&Letters::queue("orders"), &patch, &Act::new())
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
fn numbers_of_any_length_are_kept_or_the_letter_is_left() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
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
        .edit(
            &Letters::queue("orders"),
            &merge(r#"{"a": 2}"#),
            &Act::new(),
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
    // A whole payload goes as it is written.
    let set = Edit::set(r#"{"n": 98765432109876543210987.25}"#).unwrap();
    db.edit(&Letters::ids([ids[0]]), &set, &Act::new()).unwrap();
    assert_eq!(stored(&mut client), "98765432109876543210987.25");
}

#[test]
fn captured_bytes_can_be_given_a_payload_and_have_them_back() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let broken = b"{\"number\": \xff";
    let redrive::Capture::New(id) = db
        .capture(&Captured::new(
            "kafka",
            "3/1",
            "orders",
            "order",
            &broken[..],
        ))
        .unwrap()
    else {
        panic!("not new")
    };
    let one = Letters::ids([id]);
    let refused = db.edit(&one, &merge(r#"{"a": 1}"#), &Act::new()).unwrap();
    assert_eq!((refused.edited.len(), refused.refused.len()), (0, 1));
    let set = Edit::set(r#"{"number": 7}"#).unwrap();
    assert_eq!(db.edit(&one, &set, &Act::new()).unwrap().edited, [id]);
    let letter = db.letter(id).unwrap().unwrap();
    assert_eq!(letter.raw, None);
    assert_eq!(letter.payload.unwrap().get(), r#"{"number": 7}"#);
    assert_eq!(
        db.versions(id).unwrap()[0].raw.as_deref(),
        Some(&broken[..])
    );

    assert_eq!(db.restore_version(id, None, &Act::new()).unwrap(), 2);
    let letter = db.letter(id).unwrap().unwrap();
    assert_eq!(letter.raw.as_deref(), Some(&broken[..]));
    assert!(letter.payload.is_none());
    // An undo is an edit, and so can be undone.
    assert_eq!(db.restore_version(id, None, &Act::new()).unwrap(), 3);
    let redriven = db.redrive(&one, &Act::new()).unwrap();
    assert_eq!(redriven.redriven, [id]);
    assert_eq!(
        db.job(id).unwrap().unwrap().payload.get(),
        r#"{"number": 7}"#
    );
}

#[test]
fn an_old_version_comes_back_by_its_number() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let id = letters(&queue, 1)[0];
    let db = queue.database();
    for n in 1..=3 {
        let set = Edit::set(&format!("{{\"v\": {n}}}")).unwrap();
        db.edit(&Letters::ids([id]), &set, &Act::new()).unwrap();
    }
    assert_eq!(db.restore_version(id, Some(1), &Act::new()).unwrap(), 4);
    assert_eq!(payload(&queue, id), json!({ "v": 1 }));
    assert_eq!(db.restore_version(id, Some(0), &Act::new()).unwrap(), 5);
    assert_eq!(payload(&queue, id), json!({ "number": 1 }));
    let kept: Vec<u32> = db
        .versions(id)
        .unwrap()
        .iter()
        .map(|kept| kept.version)
        .collect();
    assert_eq!(kept, [0, 1, 2, 3, 4]);
    for (id, version) in [(id, Some(5)), (id, Some(99)), (JobId::new(424_242), None)] {
        let error = db
            .restore_version(id, version, &Act::new())
            .expect_err("none");
        assert!(error.is_invalid(), "{error:?}");
    }
}

#[test]
fn only_letters_that_wait_can_be_edited() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let ids = letters(&queue, 3);
    let db = queue.database();
    db.redrive(&Letters::ids([ids[0]]), &Act::new()).unwrap();
    db.discard(&Letters::ids([ids[1]]), &Act::new().why("test"))
        .unwrap();
    test.client()
        .execute(
            "UPDATE redrive.dead_letters SET state = 'quarantined' WHERE id = $1",
            &[&ids[2].get()],
        )
        .unwrap();
    let all = ids.iter().copied().chain([JobId::new(424_242)]);
    let done = db
        .edit(&Letters::ids(all), &merge(r#"{"a": 1}"#), &Act::new())
        .unwrap();
    assert_eq!(done.edited, [ids[2]]);
    assert_eq!(done.skipped, [ids[0], ids[1], JobId::new(424_242)]);
    for id in &ids[..2] {
        assert!(db.restore_version(*id, None, &Act::new()).is_err());
        assert_eq!(db.versions(*id).unwrap().len(), 0);
    }
}

#[test]
fn two_editors_at_once_lose_nothing_of_each_other() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let ids = letters(&queue, 3);
    let editors: Vec<_> = ["a", "b"]
        .into_iter()
        .map(|name| {
            let db = test.open();
            thread::spawn(move || {
                for n in 0..20 {
                    let edit = merge(&format!("{{\"{name}{n}\": {n}}}"));
                    let done = db
                        .edit(&Letters::queue("orders"), &edit, &Act::new())
                        .unwrap();
                    // Who is always second gives up in the end, and says so.
                    for id in done.skipped {
                        while db
                            .edit(&Letters::ids([id]), &edit, &Act::new())
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
        assert_eq!(queue.database().versions(*id).unwrap().len(), 40);
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
fn an_edit_against_a_redrive_goes_before_it_or_not_at_all() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let ids = letters(&queue, 300);
    let editor = {
        let db = test.open();
        thread::spawn(move || {
            let edit = merge(r#"{"fixed": true}"#);
            db.edit(&Letters::queue("orders"), &edit, &Act::new())
                .unwrap()
        })
    };
    let mut redriven = 0;
    while redriven < ids.len() {
        let some = Letters::queue("orders").limit(7);
        redriven += queue
            .database()
            .redrive(&some, &Act::new())
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
                    count(*) FILTER (WHERE j.payload = l.payload) AS same,
                    count(*) FILTER (WHERE (l.edits = 1) = (j.payload ? 'fixed')) AS told,
                    count(*) FILTER (WHERE l.edits = 1) AS edited,
                    (SELECT count(*) FROM redrive.letter_versions) AS versions
             FROM redrive.live_jobs j JOIN redrive.dead_letters l ON l.id = j.id",
            &[],
        )
        .unwrap();
    let number = |column| row.get::<_, i64>(column);
    assert_eq!(
        (number("jobs"), number("same"), number("told")),
        (300, 300, 300)
    );
    assert_eq!(number("edited"), number("versions"));
    assert_eq!(number("edited"), i64::try_from(done.edited.len()).unwrap());
}

#[test]
fn an_edit_that_expects_another_version_is_refused_in_sql() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
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
            "was edited meanwhile",
        ),
        (format!("{id}, NULL"), "NULL"),
        ("424242, '1'".to_owned(), "no letter 424242"),
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

#[test]
fn versions_go_with_their_letter() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let ids = letters(&queue, 2);
    let db = queue.database();
    db.edit(
        &Letters::queue("orders"),
        &merge(r#"{"a": 1}"#),
        &Act::new(),
    )
    .unwrap();
    db.discard(&Letters::ids([ids[0]]), &Act::new().why("test"))
        .unwrap();
    assert_eq!(db.prune(std::time::Duration::ZERO).unwrap(), 1);
    assert_eq!(db.versions(ids[0]).unwrap().len(), 0);
    assert_eq!(db.versions(ids[1]).unwrap().len(), 1);
}

#[test]
fn a_preview_tells_everything_and_changes_nothing() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    letters(&queue, 250);
    let edit = Edit::patch(
        r#"[{"op": "test", "path": "/number", "value": 9}, {"op": "remove", "path": "/number"}]"#,
    )
    .unwrap();
    let (mut changed, mut refused) = (0, 0);
    queue
        .database()
        .preview_edit(
            &Letters::queue("orders"),
            &edit,
            |preview| -> redrive::Result<()> {
                match &preview.after {
                    Previewed::Changed(after) => {
                        assert_eq!(after.get(), "{}");
                        changed += 1;
                    }
                    Previewed::Refused(_) => refused += 1,
                    Previewed::Unchanged => panic!("nothing is the same"),
                }
                Ok(())
            },
        )
        .unwrap();
    assert_eq!((changed, refused), (1, 249));
    let edits = "SELECT count(*) FROM redrive.dead_letters WHERE edits > 0";
    assert_eq!(
        test.client()
            .query_one(edits, &[])
            .unwrap()
            .get::<_, i64>(0),
        0
    );
}

#[test]
fn the_command_shows_the_difference_before_it_acts() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let ids = letters(&queue, 8);
    let edit = [
        "dlq",
        "edit",
        "orders",
        "--merge",
        r#"{"number": 3}"#,
        "--why",
        "bug 812",
    ];
    let dry = ran(&test, &edit).exits_with(0);
    assert!(
        dry.out
            .contains("  -   \"number\": 1\n  +   \"number\": 3\n")
            && dry.out.contains("... and 2 more.")
            && dry
                .out
                .contains("7 letters would be edited, 1 would stay the same, 0 cannot be."),
        "{}",
        dry.out
    );
    let lines = ran(&test, &[&edit[..], &["--json"]].concat())
        .exits_with(0)
        .lines();
    assert_eq!(lines.len(), 7);
    assert_eq!(
        lines[0],
        json!({ "id": ids[0].get(), "before": { "number": 1 }, "after": { "number": 3 } })
    );
    assert_eq!(payload(&queue, ids[0]), json!({ "number": 1 }));

    let done = ran(&test, &[&edit[..], &["--yes"]].concat()).exits_with(0);
    assert_eq!(done.out, "7 letters edited, 1 the same already\n");
    assert_eq!(payload(&queue, ids[0]), json!({ "number": 3 }));
    let kept = &queue.database().versions(ids[0]).unwrap()[0];
    assert_eq!(kept.why.as_deref(), Some("bug 812"));
    assert!(
        kept.person
            .as_deref()
            .is_some_and(|person| person.contains('@')),
        "{kept:?}"
    );

    let id = ids[0].to_string();
    let undone = ran(&test, &["dlq", "edit", "--id", &id, "--undo"]).exits_with(0);
    assert!(undone.out.contains("version 2"), "{}", undone.out);
    assert_eq!(payload(&queue, ids[0]), json!({ "number": 1 }));
    ran(&test, &["dlq", "edit", "--id", &id, "--restore", "1"]).exits_with(0);
    assert_eq!(payload(&queue, ids[0]), json!({ "number": 3 }));
    let none = ran(&test, &["dlq", "edit", "--id", &id, "--restore", "17"]).exits_with(1);
    assert!(none.err.contains("no version 17"), "{}", none.err);
}

#[test]
fn bad_edits_are_refused_and_letters_that_cannot_be_edited_are_told() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let id = letters(&queue, 1)[0].to_string();
    for bad in [
        &["--patch", "{}"][..],
        &["--merge", "{"],
        &["--set", "\"\\u0000\""],
        &["--set", "@/nowhere.json"],
        &["--merge", "{}", "--set", "1"],
        &[],
    ] {
        let arguments = [&["dlq", "edit", "--id", &id][..], bad].concat();
        ran(&test, &arguments).exits_with(2);
    }
    let missing = r#"[{"op": "remove", "path": "/nothing"}]"#;
    let told = ran(&test, &["dlq", "edit", "--id", &id, "--patch", missing]).exits_with(1);
    assert!(
        told.out.contains("0 letters edited, 1 refused") && told.out.contains("/nothing"),
        "{}",
        told.out
    );
    ran(&test, &["dlq", "redrive", "--id", &id]).exits_with(0);
    let told = ran(&test, &["dlq", "edit", "--id", &id, "--set", "1"]).exits_with(1);
    assert!(
        told.err.contains("neither open nor quarantined"),
        "{}",
        told.err
    );
    assert_eq!(
        letters_in(queue.database(), "orders", LetterState::Redriving),
        1
    );
}
