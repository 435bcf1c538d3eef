//! Previews, and the edit command.

use redrive_tests::prelude::*;

use super::payload;

#[test]
fn the_command_shows_the_difference_before_it_acts() {
    let (test, queue, ids) = TestDatabase::with_letters(250);
    let edit = r#"dlq edit orders --merge '{"number": 3}' --reason 'bug 812'"#;
    test.run(edit)
        .shows("  -   \"number\": 1\n  +   \"number\": 3\n")
        .shows("... and 244 more.")
        .shows("250 open or quarantined letters match; 249 would be edited, 1 would not change, 0 cannot be edited.");
    let lines = test.run(format!("{edit} --json")).lines();
    assert_eq!(lines.len(), 250);
    let total = json!({"dry_run": true, "action": "edit", "letters": 249, "matching": 250, "skipped": [],
        "unchanged": 1, "invalid": 0});
    let change = json!({"id": ids[0].get(), "before": {"number": 1}, "after": {"number": 3}});
    assert_eq!((&lines[0], &lines[249]), (&change, &total));
    assert_eq!(payload(&queue, ids[0]), json!({ "number": 1 }));

    test.run(format!("{edit} --yes"))
        .prints("249 letters edited, 1 unchanged\n");
    assert_eq!(payload(&queue, ids[0]), json!({ "number": 3 }));
    let kept = &queue.database().dlq().versions(ids[0]).unwrap()[0];
    assert_eq!(kept.reason.as_deref(), Some("bug 812"));
    has(kept.person.as_deref().expect("a person"), "@");

    let id = ids[0].to_string();
    test.run(format!("dlq edit {id} --undo"))
        .prints("1 letter restored\n");
    assert_eq!(payload(&queue, ids[0]), json!({ "number": 1 }));
    test.run(format!("dlq edit {id} --restore 1"));
    assert_eq!(payload(&queue, ids[0]), json!({ "number": 3 }));
    test.fails(1, format!("dlq edit {id} --restore 17"))
        .tells("no version 17");
    let exact = r#"{"a":1e400,"b":12345678901234567890123}"#;
    test.run(format!("dlq edit {id} --set '{exact}' --dry-run --json"))
        .shows(format!("\"after\":{exact}"));
    // An id that is given twice is not done and undone.
    test.run(format!("dlq edit {id} {id} --undo"));
    assert_eq!(payload(&queue, ids[0]), json!({ "number": 1 }));
    // Closed letters do not use up a limit.
    let first = ids.iter().min().expect("letters");
    test.run(format!("dlq discard {first} --reason tests"));
    test.run("dlq edit orders --undo --limit 1 --yes")
        .prints("1 letter restored\n");
}

#[test]
fn an_undo_says_why_more_letters_than_a_filter_can_name_did_not_change() {
    let test = TestDatabase::migrated();
    test.sql(
        "INSERT INTO redrive.dead_letters (id, queue, kind, cause, error_class, error_message, payload, enqueued_at)
         SELECT 1000000000000000000 + n, 'orders', 'order', 'exhausted', 'E', 'x', '{}', now()
         FROM generate_series(1, 53000) n",
    );
    test.fails(1, "dlq edit orders --undo --yes")
        .prints("0 letters restored\n")
        .tells("53,000 letters were not restored: it has no earlier payload");
}

#[test]
fn a_command_edits_each_letter_by_its_payload() {
    let (test, queue, ids) = TestDatabase::with_letters(3);
    let command = "read payload
        case $payload in *2*) echo 'not this one' >&2; exit 1;; esac
        echo \"$payload\" | sed 's/:/:10/'";
    let edit = ["dlq", "edit", "orders", "--exec", command];
    ran(&test, &edit)
        .exits_with(1)
        .shows("  -   \"number\": 1\n  +   \"number\": 101\n")
        .shows("2 would be edited, 0 would not change, 1 cannot be edited.")
        .tells("not this one");
    assert_eq!(payload(&queue, ids[0]), json!({ "number": 1 }));
    ran(&test, &[&edit[..], &["--yes"]].concat())
        .exits_with(1)
        .begins("2 letters edited, 1 invalid\n");
    for (id, number) in [(ids[0], 101), (ids[1], 2), (ids[2], 103)] {
        assert_eq!(payload(&queue, id), json!({ "number": number }));
    }
    test.run(format!("dlq edit {} --undo", ids[0]));
    assert_eq!(payload(&queue, ids[0]), json!({ "number": 1 }));
    let id = ids[1];
    test.fails(1, format!("dlq edit {id} --undo"))
        .prints("0 letters restored\n")
        .tells(format!(
            "letter {id} was not restored: it has no earlier payload"
        ));
    test.fails(1, format!("dlq edit id={id} --undo --yes --json"))
        .holds(&json!({"letters": 0, "skipped": [{"reason": "version", "letters": 1, "ids": [id.get()]}]}))
        .tells(format!("letter {id} was not restored: it has no earlier payload"));
    for (command, deadline, error) in [
        ("echo '{'", "1m", "JSON"),
        ("head -c 3000000 /dev/zero", "1m", "more than a payload"),
        ("printf '\\377'", "1m", "UTF-8"),
        ("sleep 600", "100ms", "deadline"),
    ] {
        let edit = [&edit[..4], &[command, "--deadline", deadline]].concat();
        ran(&test, &edit).exits_with(1).tells(error);
    }
}
