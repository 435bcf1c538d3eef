//! Previews, and the edit command.

use redrive::dlq::{Edit, EditDiff, LetterFilter, LetterState};
use redrive_tests::{TestDatabase, letters, letters_in, ran};
use serde_json::json;

use super::payload;

#[test]
fn a_preview_shows_every_change_and_makes_none() {
    let (test, queue) = TestDatabase::with_orders();
    letters(&queue, 250);
    let edit = Edit::patch(
        r#"[{"op": "test", "path": "/number", "value": 9}, {"op": "remove", "path": "/number"}]"#,
    )
    .unwrap();
    let (mut changed, mut refused) = (0, 0);
    queue
        .database()
        .dlq()
        .preview_edit(
            &LetterFilter::new().queue("orders"),
            &edit,
            |preview| -> redrive::Result<()> {
                match &preview.after {
                    EditDiff::Changed(after) => {
                        assert_eq!(after.get(), "{}");
                        changed += 1;
                    }
                    EditDiff::Refused(_) => refused += 1,
                    other @ (EditDiff::Unchanged | _) => panic!("nothing is the same: {other:?}"),
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
    let (test, queue) = TestDatabase::with_orders();
    let ids = letters(&queue, 8);
    let edit = [
        "dlq",
        "edit",
        "orders",
        "--merge",
        r#"{"number": 3}"#,
        "--reason",
        "bug 812",
    ];
    let dry = ran(&test, &edit).exits_with(0);
    assert!(
        dry.out
            .contains("  -   \"number\": 1\n  +   \"number\": 3\n")
            && dry.out.contains("... and 2 more.")
            && dry
                .out
                .contains("7 letters would be edited, 1 would not change, 0 cannot be edited."),
        "{}",
        dry.out
    );
    let lines = ran(&test, &[&edit[..], &["--json"]].concat())
        .exits_with(0)
        .lines();
    assert_eq!(lines.len(), 8);
    assert_eq!(
        lines[7],
        json!({ "dry_run": true, "action": "edit", "letters": 7, "unchanged": 1, "invalid": 0 })
    );
    assert_eq!(
        lines[0],
        json!({ "id": ids[0].get(), "before": { "number": 1 }, "after": { "number": 3 } })
    );
    assert_eq!(payload(&queue, ids[0]), json!({ "number": 1 }));

    let done = ran(&test, &[&edit[..], &["--yes"]].concat()).exits_with(0);
    assert_eq!(done.out, "7 letters edited, 1 unchanged\n");
    assert_eq!(payload(&queue, ids[0]), json!({ "number": 3 }));
    let kept = &queue.database().dlq().versions(ids[0]).unwrap()[0];
    assert_eq!(kept.reason.as_deref(), Some("bug 812"));
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
fn a_command_edits_each_letter_by_its_payload() {
    let (test, queue) = TestDatabase::with_orders();
    let ids = letters(&queue, 3);
    let command = "read payload
        case $payload in *2*) echo 'not this one' >&2; exit 1;; esac
        echo \"$payload\" | sed 's/:/:10/'";
    let edit = ["dlq", "edit", "orders", "--exec", command];
    let dry = ran(&test, &edit).exits_with(1);
    assert!(
        dry.out
            .contains("  -   \"number\": 1\n  +   \"number\": 101\n")
            && dry
                .out
                .contains("2 letters would be edited, 0 would not change, 1 cannot be edited.")
            && dry.err.contains("not this one"),
        "{}{}",
        dry.out,
        dry.err
    );
    assert_eq!(payload(&queue, ids[0]), json!({ "number": 1 }));
    let done = ran(&test, &[&edit[..], &["--yes"]].concat()).exits_with(1);
    assert!(
        done.out.starts_with("2 letters edited, 1 invalid\n"),
        "{}",
        done.out
    );
    for (id, number) in [(ids[0], 101), (ids[1], 2), (ids[2], 103)] {
        assert_eq!(payload(&queue, id), json!({ "number": number }));
    }
    ran(
        &test,
        &["dlq", "edit", "--id", &ids[0].to_string(), "--undo"],
    )
    .exits_with(0);
    assert_eq!(payload(&queue, ids[0]), json!({ "number": 1 }));
    let id = ids[1].to_string();
    let none = ran(&test, &["dlq", "edit", "--id", &id, "--undo"]).exits_with(1);
    let why = format!("letter {id} was never edited");
    assert!(none.err.contains(&why), "{}", none.err);
    for (command, deadline, error) in [
        ("echo '{'", "1m", "JSON"),
        ("head -c 3000000 /dev/zero", "1m", "more than a payload"),
        ("printf '\\377'", "1m", "UTF-8"),
        ("sleep 600", "100ms", "deadline"),
    ] {
        let edit = [
            "dlq",
            "edit",
            "orders",
            "--deadline",
            deadline,
            "--exec",
            command,
        ];
        let failed = ran(&test, &edit).exits_with(1);
        assert!(failed.err.contains(error), "{command}: {}", failed.err);
    }
}

#[test]
fn bad_edits_are_rejected_and_letters_that_cannot_be_edited_are_reported() {
    let (test, queue) = TestDatabase::with_orders();
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
    let output = ran(&test, &["dlq", "edit", "--id", &id, "--patch", missing]).exits_with(1);
    assert!(
        output.out.contains("0 letters edited, 1 invalid") && output.out.contains("/nothing"),
        "{}",
        output.out
    );
    ran(&test, &["dlq", "redrive", "--id", &id]).exits_with(0);
    let output = ran(&test, &["dlq", "edit", "--id", &id, "--set", "1"]).exits_with(1);
    assert!(
        output.err.contains("neither open nor quarantined"),
        "{}",
        output.err
    );
    assert_eq!(
        letters_in(queue.database(), "orders", LetterState::Redriving),
        1
    );
}
