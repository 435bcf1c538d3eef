//! Commands on letters in several states: the preview is the act, and no state is invisible.

use redrive_tests::prelude::*;

use super::super::{letters, ready, with_letters};

/// Makes letters in the queue `orders`: `open` open ones and `quarantined` quarantined ones.
fn quarantine(db: &TestDatabase, open: usize, quarantined: usize) -> Vec<i64> {
    let queue = db.queue("orders");
    let ids = letters(db, &queue, open + quarantined);
    let ids: Vec<i64> = ids.iter().rev().map(|id| id.get()).collect();
    // They died in the order of their ids.
    let order = "UPDATE redrive.dead_letters SET died_at = died_at + id * interval '1 minute' \
                 - interval '1 day'";
    db.client().change(order, &[]);
    let set =
        "UPDATE redrive.dead_letters SET state = 'quarantined', alike = 3 WHERE id = ANY ($1)";
    db.client().change(set, &[&&ids[open..]]);
    ids
}

#[test]
fn a_quarantined_group_is_visible() {
    let db = TestDatabase::migrated();
    quarantine(&db, 0, 4);
    let group = db.run("dlq groups --json").lines()[0]["id"].to_string();
    let of_group = format!("group={group}");

    let screen = db.run("dlq");
    let list = format!("redrive dlq list group={group} state=quarantined");
    screen.shows(&list);
    for line in screen.out.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    db.run(format!("dlq groups show {group}")).shows(&list);
    let found = db.run(format!("dlq list {of_group} state=quarantined --json"));
    assert_eq!(found.lines().len(), 4);
    let (lists, forces) = (
        "; state=quarantined lists those",
        "; --force --reason TEXT includes the quarantined ones",
    );
    for (line, way) in [
        (format!("list {of_group}"), lists),
        (format!("list {of_group} state=open --by kind"), ""),
        (format!("redrive {of_group}"), forces),
        (format!("redrive {of_group} --yes"), forces),
        (format!("redrive {of_group} state=open --yes"), ""),
        (format!("validate {of_group} --exec true"), ""),
    ] {
        db.fails(1, format!("dlq {line}"))
            .tells(format!(": 0 open, 4 quarantined{way}\n"));
    }
}

#[test]
fn letters_given_by_id_are_named_with_their_state() {
    let db = TestDatabase::migrated();
    let ids = quarantine(&db, 1, 2);
    let (open, quarantined) = (ids[0], ids[1]);
    db.fails(1, format!("dlq redrive {quarantined}"))
        .tells(format!(
            "redrive dlq redrive {quarantined} --force --reason TEXT"
        ));

    // An operator who names a quarantined letter may close it.
    let discard = format!("dlq discard {quarantined} 999999 --reason refunded");
    db.fails(1, &discard)
        .tells("letter 999999 was not discarded: it does not exist");
    db.fails(1, &discard).tells(format!(
        "letter {quarantined} was not discarded: it is discarded"
    ));

    db.run(format!("dlq list {open} {quarantined}"))
        .shows(format!("{open}  orders"))
        .shows(format!("{quarantined}  orders"));
    db.fails(1, "dlq list 999999")
        .tells("no letter matches id=999999");
    db.run(format!("dlq redrive {open} --dry-run"))
        .shows("To act, leave out --dry-run.");
    assert_eq!(ready(&db.queue("orders")), 0);
    db.run(format!("dlq redrive {open}"));
    assert_eq!(ready(&db.queue("orders")), 1);
    db.fails(1, format!("dlq redrive {open}"))
        .tells(format!("letter {open} was not redriven: it is redriving"));
    // The name of a queue may be a number.
    db.run("enqueue 7 order {}");
    db.fails(1, "dlq discard queue=7 --reason refunded")
        .tells("no open or quarantined letter matches");
    db.fails(1, "dlq redrive order")
        .tells("there is no queue `order`; there are ");
}

#[test]
fn a_preview_of_other_states_counts_them_and_offers_nothing() {
    let (db, queue, _) = with_letters(3);
    db.run("dlq discard orders --limit 2 --reason tests --yes");
    // One open letter and two discarded ones.
    db.fails(1, "dlq redrive orders state=discarded")
        .tells("0 open, 2 discarded\n")
        .hides("--yes");
    let both = "dlq redrive orders state=open,discarded";
    db.run(both)
        .shows("1 open letter matches; 1 would be redriven")
        .shows("2 letters left out: discarded; only open letters are redriven");
    let skipped = json!([{ "reason": "discarded", "letters": 2, "include": null }]);
    db.run(format!("{both} --json"))
        .holds(&json!({"matching": 1, "letters": 1, "skipped": skipped}));
    // Nothing discards a discarded letter again.
    db.fails(1, "dlq discard orders state=discarded --reason tests")
        .hides("--yes")
        .tells("no open or quarantined letter matches: 0 open, 0 quarantined, 2 discarded\n");
    assert_eq!(in_state(&queue, LetterState::Discarded), 2);
    // Nothing else takes an open letter for a discarded one.
    for yes in ["", " --yes"] {
        let deliver = format!("dlq deliver orders state=discarded --exec true{yes}");
        db.fails(1, deliver).tells("0 open, 2 discarded\n");
    }
    assert_eq!(in_state(&queue, LetterState::Open), 1);
    let discarded = db.run("dlq export orders state=discarded");
    assert_eq!(discarded.out.lines().count(), 2);
}

#[test]
fn a_preview_selects_the_letters_that_the_run_selects() {
    let (db, queue) = TestDatabase::with_orders();
    let ids = quarantine(&db, 3, 2);
    // Letter 0 lost its unique key to a live job; letters 1 and 2 share another key.
    let keys = "UPDATE redrive.dead_letters SET unique_key = $2 WHERE id = ANY ($1)";
    let mut client = db.client();
    client.change(keys, &[&&ids[..1], &"taken"]);
    client.change(keys, &[&&ids[1..3], &"shared"]);
    put(&queue, NewJob::raw("other", "1").unwrap().unique("taken"));
    let not_json = ForeignFailure::new("s", "1", "orders", "order", "{");
    queue.captures(&not_json);

    let dry = db.run("dlq redrive orders");
    dry.shows("4 open letters match; 1 would be redriven")
        .shows("2 letters left out: a live job holds its unique key")
        .shows("1 letter left out: the captured bytes are not JSON")
        .shows("2 letters left out: quarantined; --force --reason TEXT includes them");
    // The sample is the letter that goes, and none of those that stay.
    let rows = |out: &str| -> Vec<i64> {
        let words = out
            .lines()
            .filter_map(|line| line.split_whitespace().next());
        let rows = words.skip_while(|word| *word != "ID");
        rows.filter_map(|word| word.parse().ok()).collect()
    };
    let sample = rows(&dry.out);
    assert!(sample.contains(&ids[1]), "{}", dry.out);
    let stays = [0, 2].map(|place| sample.contains(&ids[place]));
    assert_eq!(stays, [false; 2], "{}", dry.out);

    let dry = db.run("dlq redrive orders --force --reason fixed");
    dry.shows("6 open or quarantined letters match; 3 would be redriven");
    let sample = rows(&dry.out);
    let goes = [3, 4].map(|place| sample.contains(&ids[place]));
    assert_eq!(goes, [true; 2], "{}", dry.out);

    // The act without workers sends exactly these, and skips those that the preview leaves out.
    let sent = "SELECT array_agg(l.id ORDER BY l.id) FROM redrive.dead_letters l \
                WHERE l.state = 'redriving'";
    db.fails(1, "dlq redrive orders --yes");
    let redriving: Vec<i64> = client.ask(sent, &[]);
    assert_eq!(redriving, [ids[1]]);
    let only = "dlq redrive orders state=quarantined --force --reason fixed";
    db.run(only).shows("; 2 would be redriven");
    db.run(format!("{only} --yes"));
    let redriving: Vec<i64> = client.ask(sent, &[]);
    assert_eq!(redriving, [ids[1], ids[3], ids[4]]);

    // Two letters are left, and none can go.
    db.fails(1, "dlq redrive orders")
        .shows("nothing would be redriven")
        .hides("--yes");
}
