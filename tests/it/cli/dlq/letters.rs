//! Commands on letters: list, show, redrive, capture.

use redrive_tests::prelude::*;

use super::super::{ready, with_letters};

#[test]
fn bulk_commands_change_nothing_without_yes() {
    let (db, queue, ids) = with_letters(12);

    db.run("dlq redrive orders cause=rejected")
        .shows("12 open letters match; 12 would be redriven")
        .shows("To act, add --yes.\n");
    db.run("dlq discard orders --reason tests");
    // Only a dry run needs no reason, and it says what the act needs.
    for line in ["dlq discard orders", "dlq redrive orders --force"] {
        db.run(line).shows("To act, add --reason TEXT --yes.\n");
        db.fails(2, format!("{line} --yes"))
            .tells("needs --reason TEXT");
    }
    db.run(format!("dlq discard {} --dry-run", ids[0]))
        .shows("To act, add --reason TEXT, without --dry-run.\n");
    assert_eq!(in_state(&queue, LetterState::Open), 12);

    db.run("dlq redrive orders --limit 5 --yes");
    assert_eq!(ready(&queue), 5);
    db.run("dlq discard orders --reason tests --yes");
    assert_eq!(in_state(&queue, LetterState::Discarded), 7);
    db.fails(1, "dlq redrive orders --yes");
    db.run("prune --older-than 0s --yes --json")
        .holds(&json!({"letters": 7}));
}

#[test]
fn the_commands_on_letters_accept_conditions() {
    let (db, orders, ids) = with_letters(4);
    let listed = db.run("dlq list orders payload.order>2 age<1h --json");
    assert_eq!(listed.lines().len(), 2);
    db.run(format!("dlq list id={} --json", ids[0]))
        .holds(&json!({"id": ids[0].get()}));
    db.run("dlq list orders state=any");
    db.fails(1, r#"dlq list orders 'message~"no such"'"#)
        .tells("no letter matches queue=orders state=open message~\"no such\"");

    db.fails(1, "dlq list orders payload.order~4")
        .tells("payload.order~\"4\"");
    db.run("dlq list orders --by kind").shows("order.placed");

    let discard = format!("dlq discard id>={} payload.order=3", ids[2]);
    db.run(format!("{discard} --reason test --yes"));
    assert_eq!(in_state(&orders, LetterState::Discarded), 1);
    db.run("dlq redrive orders payload.order<=2 --yes");
    assert_eq!(ready(&orders), 2);
    let gone = ids[0];
    let delete = "DELETE FROM redrive.dead_letters WHERE id = $1";
    db.client().change(delete, &[&gone.get()]);
    db.fails(2, format!("dlq list orders --after {gone}"))
        .tells(format!("letter {gone} is gone"));
}

#[test]
fn a_letter_is_shown_as_one_timeline_across_its_generations() {
    let (db, _, ids) = with_letters(1);
    let id = ids[0].to_string();
    db.run(format!("dlq redrive {id}"));
    db.run("work orders --exec 'echo worse >&2; exit 65' --drain");
    db.run(format!("dlq discard {id} --reason refunded"));
    let shown = db.run(format!("dlq show {id}"));
    let expected = [
        "enqueued",
        "attempt 1: rejected",
        "died: rejected",
        "attempt 1 of generation 1",
        "died in generation 1: rejected",
        "discarded",
    ];
    let mut rest = &*shown.out;
    for what in expected {
        let at = rest
            .find(what)
            .unwrap_or_else(|| panic!("`{what}` in its place: {}", shown.out));
        rest = &rest[at + what.len()..];
    }
    shown.shows("group ").shows("process ");
    // Other events may follow a discard.
    let redacted = r#"UPDATE redrive.dead_letters SET events = redrive.add_event(events, '{"event": "redacted"}')"#;
    db.client().sql(redacted);
    let shown = db.run(format!("dlq show {id}")).out;
    let (_, timeline) = shown.split_once("Timeline:").expect("a timeline");
    assert_eq!(timeline.matches("discarded").count(), 1, "{timeline}");
    let json = db.run(format!("dlq show {id} --json")).json();
    assert_eq!(json["deaths"], 2);
    assert!(json["history"][1]["pid"].is_number());
    let events = json["events"].as_array().expect("events");
    let is_told = events.iter().any(|event| event["event"] == "discarded");
    assert!(is_told, "{events:?}");
}

#[test]
fn the_whole_detail_of_an_error_is_shown() {
    let (db, queue) = TestDatabase::with_orders();
    let id = queue.enqueue(&Order { number: 1 }).unwrap();
    db.run("work orders --exec 'seq 1001 1020 >&2; exit 65' --drain");
    db.run(format!("dlq show {id}"))
        .shows("Detail:\n  1001\n  1002\n")
        .shows("  1012\n  1013\n");
}

#[test]
fn a_letter_is_shown_with_what_is_stored() {
    let (db, _, ids) = with_letters(1);
    let show = format!("dlq show {}", ids[0]);
    db.run(&show).hides("claimed");
    // Control characters are as they were in JSON: only a terminal needs them escaped.
    let update = "UPDATE redrive.dlq_events SET status = 'PENDING';
                  UPDATE redrive.dlq_events SET status = 'PROCESSING';
                  UPDATE redrive.dead_letters SET headers = '{\"trace\": \"4bf9\"}', group_key = 'customer-17',
                      unique_key = 'order-1', crashes = 2, error_message = E'\x1b[2J\u{202e}evil'";
    db.client().sql(update);
    db.run(&show).shows("by a consumer until 2");
    let line = db.run(format!("{show} --json")).json();
    let stored = json!({"headers": {"trace": "4bf9"}, "group_key": "customer-17", "unique_key": "order-1",
                        "crashes": 2, "error_message": "\u{1b}[2J\u{202e}evil"});
    holds(&line, &stored);
    assert!(line["claimed_until"].is_string(), "{line}");
}
