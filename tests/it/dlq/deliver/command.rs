//! Delivery to a command, from the command line.

use redrive_tests::prelude::*;

#[test]
fn a_delivery_command_receives_the_original_bytes() {
    let (test, db) = TestDatabase::opened();
    let bytes: Vec<u8> = (0..=255).collect();
    let from = |source, position, raw: &[u8]| {
        ForeignFailure::new(source, position, "orders", "order.placed", raw)
    };
    let event = from("kafka:orders", "3/1842", &bytes).header("trace", "abc");
    let id = db.captures_new(&event.error("ParseError", "no text"));
    let file = TempFile::of("");
    let command = format!(
        "test \"$REDRIVE_SOURCE $REDRIVE_POSITION $REDRIVE_KIND $REDRIVE_ERROR_CLASS\" = \
         'kafka:orders 3/1842 order.placed ParseError' && echo \"$REDRIVE_HEADERS\" | grep -q abc && cat > {file}"
    );
    let deliver = |id: JobId, command: &str| {
        let id = id.to_string();
        ran(&test, &["dlq", "deliver", &id, "--exec", command]).exits_with(0)
    };
    deliver(id, &command);
    assert_eq!(file.bytes(), bytes);
    let letter = db.letter(id);
    assert_eq!(letter.state, LetterState::Recovered);
    assert_eq!(letter.raw, Some(bytes));

    // After an edit the payload is sent, on one line.
    let id = db.captures_new(&from("kafka", "3/1843", b"{"));
    let set = Edit::set(r#"{"a": 1}"#).unwrap();
    db.edits(&only(id), &set);
    deliver(id, &format!("cat > {file}"));
    assert_eq!(file.bytes(), b"{\"a\": 1}\n");
}

#[test]
fn delivering_a_queue_needs_yes_and_reports_failures() {
    let (test, queue, ids) = TestDatabase::with_letters(3);
    let command = "grep -q '\"number\":[12]}' || { echo 'too many' >&2; exit 7; }";
    let deliver = ["dlq", "deliver", "orders", "--exec", command];
    ran(&test, &deliver)
        .exits_with(0)
        .shows("3 open letters match; 3 would be delivered")
        .shows("--yes");
    assert_eq!(in_state(&queue, LetterState::Open), 3);
    let failed = format!("letter {} was not delivered: exit:7: too many", ids[2]);
    ran(&test, &[&deliver[..], &["--yes"]].concat())
        .exits_with(1)
        .prints("2 letters delivered\n")
        .tells(failed);
    let skipped = json!([{"reason": "failed", "letters": 1, "ids": [ids[2].get()]}]);
    ran(&test, &[&deliver[..], &["--yes", "--json"]].concat())
        .exits_with(1)
        .holds(&json!({"letters": 0, "dry_run": false, "skipped": skipped}));
    let slow = "dlq deliver orders --exec 'sleep 300' --deadline 200ms --yes";
    test.fails(1, slow)
        .tells("timeout: the command exceeded its deadline");
    test.fails(2, "dlq deliver orders --sink nowhere --yes");
    test.fails(2, "dlq deliver orders");
    test.fails(1, "dlq deliver empty --exec true --yes");
}

#[test]
fn a_dry_run_leaves_out_redacted_letters_as_the_delivery_does() {
    let (test, _, ids) = TestDatabase::with_letters(3);
    let redact = "UPDATE redrive.dead_letters SET redacted = '{/number}' WHERE id = $1";
    test.client().change(redact, &[&ids[0].get()]);
    let deliver = |more: &str| format!("dlq deliver orders --exec true{more}");
    test.run(deliver(""))
        .shows("2 would be delivered")
        .shows("1 letter left out: the payload was redacted")
        .shows(ids[1].to_string());
    let skipped = json!([{"reason": "redacted", "letters": 1,
        "include": "`redrive dlq edit` replaces it"}]);
    test.run(deliver(" --json"))
        .holds(&json!({"letters": 2, "matching": 3, "skipped": skipped}));
    test.fails(1, deliver(" --limit 1"))
        .shows("0 would be delivered")
        .hides("--yes");
    let redacted = format!(
        "letter {} was not delivered: its payload was redacted",
        ids[0]
    );
    test.fails(1, deliver(" --yes"))
        .prints("2 letters delivered\n")
        .tells(redacted);
}

#[test]
fn a_delivery_whose_session_ends_says_how_far_it_came() {
    let (test, queue, ids) = TestDatabase::with_letters(3);
    let (url, last) = (test.url().to_owned(), ids[1]);
    let sink = move |letter: &Letter| -> Result<(), Failure> {
        if letter.id == last {
            let end = "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity
                       WHERE datname = current_database() AND state = 'idle in transaction'";
            let mut client = Client::connect(&url, NoTls).unwrap();
            client.execute(end, &[]).unwrap();
        }
        Ok(())
    };
    let program = Program::new("shop").sink("broken", sink);
    let deliver = ["dlq", "deliver", "orders", "--sink", "broken", "--yes"];
    let lines = ran_by(&program, &test, &[&deliver[..], &["--json"]].concat()).exits_with(2);
    lines.tells("stopped: 1 of 3 letters delivered; the others stay open");
    assert_eq!(in_state(&queue, LetterState::Recovered), 1);
    // Nothing was delivered before the first one failed.
    ran_by(&program, &test, &deliver).exits_with(2).prints("");
}
