//! The outcome of each letter of a run is visible, also after later runs.

use redrive_tests::prelude::*;

use super::super::with_letters;

/// Expects that each of the three letters of a run has this outcome, without a reason, and state.
#[track_caller]
fn all_are(db: &TestDatabase, run: u8, outcome: &str, state: &str) {
    let lines = db
        .run(format!("dlq runs show {run} --letters --json"))
        .lines();
    assert_eq!(lines.len(), 3);
    let expected = json!({"outcome": outcome, "reason": null, "state": state});
    for line in &lines {
        holds(line, &expected);
    }
}

#[test]
fn the_outcome_of_each_letter_stays_visible_after_later_runs() {
    let (db, _, ids) = with_letters(3);
    let all = "dlq redrive orders --unthrottled --yes";
    db.run("dlq redrive orders --detach --yes");
    all_are(&db, 1, "waiting", "open");
    db.run("dlq runs cancel 1");
    all_are(&db, 1, "not_tried", "open");

    // The second run kills them again, the third skips them because live jobs hold their keys, the fourth kills them
    // with another error, and the fifth recovers them.
    db.run(all);
    all_are(&db, 2, "sent", "redriving");
    let work = |handler: &str| db.run(format!("work orders --exec '{handler}' --drain"));
    work("echo broken >&2; exit 65");
    all_are(&db, 2, "died_alike", "open");
    let update = "UPDATE redrive.dead_letters SET unique_key = id::text;
         INSERT INTO redrive.unique_keys (queue, key, job_id) SELECT 'orders', id::text, 1000000 + id FROM redrive.dead_letters";
    db.client().sql(update);
    db.fails(1, all);
    db.client().sql("DELETE FROM redrive.unique_keys");
    db.run(all);
    work("echo different >&2; exit 65");
    all_are(&db, 4, "died_differently", "open");
    db.run(all);
    let show = format!("dlq show {}", ids[0]);
    db.run(&show)
        .shows("  run 2       died again\n")
        .shows("  run 3       skipped: a live job holds its unique key\n")
        .shows("  run 5       sent\n")
        .shows("(run 2) -> died again\n")
        .shows("(run 5) -> sent\n");
    let skipped = json!({"run": 3, "outcome": "skipped", "reason": "conflict"});
    assert_eq!(db.run(show + " --json").json()["runs"][2], skipped);
    work("true");
    all_are(&db, 2, "died_alike", "recovered");

    let page = db.run("dlq runs show 2 --letters --limit 1 --after 1");
    page.tells("--after 2").shows("recovered  died again");
    let line = page.out.lines().nth(1).expect("a letter");
    assert!(line.trim_start().starts_with("2  "), "{line}");
    db.fails(1, "dlq runs show 2 --letters --after 3");
    db.fails(1, "dlq runs show 9 --letters");
}
