//! Commands on letters in several states: the preview is the act, and no state is invisible.

use redrive::NewJob;
use redrive::dlq::{ForeignFailure, LetterState};
use redrive_tests::{TestDatabase, letters_in};
use serde_json::{Value, json};

use super::super::{letters, ready, redrive};

/// Makes letters in the queue `orders`: `open` open ones and `quarantined` quarantined ones.
fn quarantine(db: &TestDatabase, open: usize, quarantined: usize) -> Vec<i64> {
    let queue = db.queue("orders");
    let mut ids: Vec<i64> = letters(db, &queue, open + quarantined)
        .iter()
        .map(|id| id.get())
        .collect();
    ids.sort_unstable();
    // They died in the order of their ids.
    let order = "UPDATE redrive.dead_letters SET died_at = died_at + id * interval '1 minute' \
                 - interval '1 day'";
    db.client().execute(order, &[]).unwrap();
    let set =
        "UPDATE redrive.dead_letters SET state = 'quarantined', alike = 3 WHERE id = ANY ($1)";
    db.client().execute(set, &[&&ids[open..]]).unwrap();
    ids
}

fn group(db: &TestDatabase) -> String {
    redrive(db, &["dlq", "groups", "--json"])
        .exits_with(0)
        .lines()[0]["id"]
        .to_string()
}

/// Runs a command that a message suggests: the text after the last `: `.
fn suggested(err: &str) -> Vec<String> {
    let line = err
        .lines()
        .find(|line| line.contains(": redrive "))
        .expect(err);
    let (_, command) = line.rsplit_once(": redrive ").expect(err);
    command.split(' ').map(str::to_owned).collect()
}

#[test]
fn a_quarantined_group_is_visible_and_each_suggested_command_works() {
    let db = TestDatabase::migrated();
    quarantine(&db, 0, 4);
    let group = group(&db);
    let of_group = format!("group={group}");

    let screen = redrive(&db, &["dlq"]).exits_with(0);
    let list = format!("redrive dlq list group={group} state=quarantined");
    assert!(screen.out.contains(&list), "{}", screen.out);
    for line in screen.out.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let shown = redrive(&db, &["dlq", "groups", "show", &group]).exits_with(0);
    assert!(shown.out.contains(&list), "{}", shown.out);

    let listed = redrive(&db, &["dlq", "list", &of_group]).exits_with(1);
    assert!(
        listed
            .err
            .contains(&format!("0 open, 4 quarantined: {list}")),
        "{}",
        listed.err
    );
    let words = suggested(&listed.err);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let found = redrive(&db, &[&words[..], &["--json"]].concat()).exits_with(0);
    assert_eq!(found.lines().len(), 4);

    for verb in [
        &["dlq", "redrive", &of_group][..],
        &["dlq", "redrive", &of_group, "--yes"],
        &["dlq", "redrive", &of_group, "--detach", "--yes"],
    ] {
        let refused = redrive(&db, verb).exits_with(1);
        let forced = format!(
            "no open letter matches: 0 open, 4 quarantined: \
             redrive dlq redrive group={group} --force --reason TEXT"
        );
        assert!(refused.err.contains(&forced), "{verb:?}: {}", refused.err);
        let words = suggested(&refused.err);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let dry = redrive(&db, &[&words[..], &["--json"]].concat()).exits_with(0);
        assert_eq!(dry.lines()[0]["letters"], 4);
    }
    for verb in ["discard", "validate"] {
        let option = match verb {
            "discard" => ["--reason", "tests"],
            _ => ["--exec", "true"],
        };
        let refused = redrive(&db, &["dlq", verb, &of_group, option[0], option[1]]).exits_with(1);
        assert!(
            refused.err.contains("0 open, 4 quarantined: redrive dlq "),
            "{}",
            refused.err
        );
        let words = suggested(&refused.err);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        redrive(&db, &words).exits_with(0);
    }
}

#[test]
fn letters_given_by_id_are_named_with_their_state() {
    let db = TestDatabase::migrated();
    let ids = quarantine(&db, 1, 2);
    let (open, quarantined) = (ids[0].to_string(), ids[1].to_string());
    let refused = redrive(&db, &["dlq", "redrive", "--id", &quarantined]).exits_with(1);
    let forced = format!("redrive dlq redrive --id {quarantined} --force --reason TEXT");
    assert!(refused.err.contains(&forced), "{}", refused.err);

    // An operator who names a quarantined letter may close it.
    let reason = ["--reason", "refunded"];
    let discard = |id: &str, code| {
        redrive(
            &db,
            &[&["dlq", "discard", "--id", id][..], &reason].concat(),
        )
        .exits_with(code)
    };
    discard(&quarantined, 0);
    let again = discard(&quarantined, 1);
    let closed = format!("letter {quarantined} was not discarded: it is discarded");
    assert!(again.err.contains(&closed), "{}", again.err);
    let missing = discard("999999", 1);
    assert!(
        missing
            .err
            .contains("letter 999999 was not discarded: it does not exist")
    );

    // The id of a letter in the place of a queue.
    let refused = redrive(&db, &["dlq", "list", &open]).exits_with(1);
    let said = format!("there is no queue `{open}`; letter {open} is open: redrive dlq ");
    assert!(refused.err.contains(&said), "{}", refused.err);
    let words = suggested(&refused.err);
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    redrive(&db, &words).exits_with(0);
    let dry = redrive(&db, &["dlq", "redrive", &open, "--dry-run"]).exits_with(0);
    assert!(
        dry.out
            .contains(&format!("redrive dlq redrive --id {open}")),
        "{}",
        dry.out
    );
    assert_eq!(ready(&db.queue("orders")), 0);
    redrive(&db, &["dlq", "redrive", &open]).exits_with(0);
    assert_eq!(ready(&db.queue("orders")), 1);
    let again = redrive(&db, &["dlq", "redrive", &open]).exits_with(1);
    let closed = format!("letter {open} was not redriven: it is redriving");
    assert!(again.err.contains(&closed), "{}", again.err);
    // A queue of that name has precedence.
    redrive(&db, &["enqueue", &quarantined, "order", "{}"]).exits_with(0);
    let queue = redrive(&db, &["dlq", "discard", &quarantined, reason[0], reason[1]]).exits_with(1);
    assert!(
        queue.err.contains("no open letter matches"),
        "{}",
        queue.err
    );
    let typo = redrive(&db, &["dlq", "redrive", "order"]).exits_with(1);
    assert!(
        typo.err
            .contains("there is no queue `order`; did you mean `orders`?"),
        "{}",
        typo.err
    );
    let unknown = redrive(&db, &["dlq", "list", "bills"]).exits_with(1);
    assert!(
        unknown
            .err
            .contains("there is no queue `bills`; there are "),
        "{}",
        unknown.err
    );
}

#[test]
fn a_preview_of_other_states_counts_them_and_offers_nothing() {
    let db = TestDatabase::migrated();
    let queue = db.queue("orders");
    letters(&db, &queue, 3);
    redrive(
        &db,
        &[
            "dlq", "discard", "orders", "--limit", "2", "--reason", "tests", "--yes",
        ],
    )
    .exits_with(0);
    // One open letter and two discarded ones.
    let dry = redrive(&db, &["dlq", "redrive", "orders", "state=discarded"]).exits_with(1);
    assert!(
        dry.err.contains("0 open, 2 discarded: redrive dlq list"),
        "{}",
        dry.err
    );
    assert!(!dry.out.contains("--yes"), "{}", dry.out);
    let both = ["dlq", "redrive", "orders", "state=open,discarded"];
    let dry = redrive(&db, &both).exits_with(0);
    assert!(
        dry.out
            .contains("1 open letter matches; 1 would be redriven"),
        "{}",
        dry.out
    );
    assert!(
        dry.out
            .contains("2 letters left out: discarded; only open letters are redriven"),
        "{}",
        dry.out
    );
    let json = redrive(&db, &[&both[..], &["--json"]].concat())
        .exits_with(0)
        .lines();
    assert_eq!(
        (&json[0]["matching"], &json[0]["letters"]),
        (&Value::from(1), &Value::from(1))
    );
    assert_eq!(
        json[0]["skipped"],
        json!([{ "reason": "not_open", "state": "discarded", "letters": 2, "include": null }])
    );
    // Nothing discards a discarded letter again.
    let dry = [
        "dlq",
        "discard",
        "orders",
        "state=discarded",
        "--reason",
        "tests",
    ];
    let refused = redrive(&db, &dry).exits_with(1);
    assert!(!refused.out.contains("--yes"), "{}", refused.out);
    assert!(
        refused
            .err
            .contains("no letter in these states can be discarded")
    );
    assert_eq!(
        letters_in(queue.database(), "orders", LetterState::Discarded),
        2
    );
}

#[test]
fn a_preview_selects_the_letters_that_the_run_selects() {
    let db = TestDatabase::migrated();
    let queue = db.queue("orders");
    let ids = quarantine(&db, 3, 2);
    // Letter 0 lost its unique key to a live job; letters 1 and 2 share another key.
    let keys = "UPDATE redrive.dead_letters SET unique_key = $2 WHERE id = ANY ($1)";
    let mut client = db.client();
    client.execute(keys, &[&&ids[..1], &"taken"]).unwrap();
    client.execute(keys, &[&&ids[1..3], &"shared"]).unwrap();
    let holder = NewJob::raw("other", "1").unwrap().unique("taken");
    queue.enqueue_job(holder).unwrap();
    let broken = ForeignFailure::new("s", "1", "orders", "order", b"{".as_slice());
    queue.database().dlq().capture(&broken).unwrap();

    let dry = redrive(&db, &["dlq", "redrive", "orders"]).exits_with(0);
    assert!(
        dry.out
            .contains("4 open letters match; 1 would be redriven"),
        "{}",
        dry.out
    );
    for line in [
        "2 letters left out: a live job holds its unique key",
        "1 letter left out: the captured bytes are not JSON",
        "2 letters left out: quarantined; --force --reason TEXT includes them",
    ] {
        assert!(dry.out.contains(line), "{line}: {}", dry.out);
    }
    // The sample is the letter that goes, and none of those that stay.
    let has_row = |out: &str, id: i64| {
        let id = id.to_string();
        out.lines()
            .skip_while(|line| line.split_whitespace().next() != Some("ID"))
            .any(|line| line.split_whitespace().next() == Some(&*id))
    };
    assert!(has_row(&dry.out, ids[1]), "{}", dry.out);
    assert!(
        !has_row(&dry.out, ids[0]) && !has_row(&dry.out, ids[2]),
        "{}",
        dry.out
    );

    let forced = ["dlq", "redrive", "orders", "--force", "--reason", "fixed"];
    let dry = redrive(&db, &forced).exits_with(0);
    assert!(
        dry.out
            .contains("6 open or quarantined letters match; 3 would be redriven"),
        "{}",
        dry.out
    );
    assert!(
        has_row(&dry.out, ids[3]) && has_row(&dry.out, ids[4]),
        "{}",
        dry.out
    );

    // The act without workers sends exactly these.
    let sent = "SELECT array_agg(l.id ORDER BY l.id) FROM redrive.dead_letters l \
                WHERE l.state = 'redriving'";
    redrive(&db, &["dlq", "redrive", "orders", "--yes"]).exits_with(0);
    let redriving: Vec<i64> = client.query_one(sent, &[]).unwrap().get(0);
    assert_eq!(redriving, [ids[1]]);
    let only = [
        "dlq",
        "redrive",
        "orders",
        "state=quarantined",
        "--force",
        "--reason",
        "fixed",
    ];
    let dry = redrive(&db, &only).exits_with(0);
    assert!(dry.out.contains("; 2 would be redriven"), "{}", dry.out);
    redrive(&db, &[&only[..], &["--yes"]].concat()).exits_with(0);
    let redriving: Vec<i64> = client.query_one(sent, &[]).unwrap().get(0);
    assert_eq!(redriving, [ids[1], ids[3], ids[4]]);

    // Two letters are left, and none can go.
    let none = redrive(&db, &["dlq", "redrive", "orders"]).exits_with(1);
    assert!(
        none.out.contains("nothing would be redriven"),
        "{}",
        none.out
    );
    assert!(!none.out.contains("--yes"), "{}", none.out);
}
