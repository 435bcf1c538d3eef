//! The commands that merge and split groups.

use redrive_tests::prelude::*;

/// Captures a failure and returns its group.
fn group(db: &TestDatabase, message: &str) -> String {
    let mut client = db.client();
    client.change("SELECT redrive.capture('s', gen_random_uuid()::text, 'orders', 'order', '{}', error_message => $1)",
                  &[&message]);
    let newest = "SELECT group_id FROM redrive.dead_letters ORDER BY id DESC LIMIT 1";
    client.ask::<i64>(newest, &[]).to_string()
}

#[test]
fn groups_are_merged_and_the_rule_is_removed() {
    let db = TestDatabase::migrated();
    let messages = ["card declined", "no such customer", "gateway down"];
    let [from, into, other] = messages.map(|message| group(&db, message));
    db.run(format!("dlq groups merge {from} {into} --dry-run"))
        .shows("1 letter would move")
        .shows("Nothing was changed.");
    db.fails(1, "dlq groups rules list");
    let told = format!("group {from} is merged into group {into}; 1 letter moved");
    db.run(format!("dlq groups merge {from} {into} --yes"))
        .shows(told);
    db.run("dlq groups rules list")
        .shows(format!("merge into {into}"))
        .shows("card declined");
    db.fails(2, format!("dlq groups merge {into} {from}"))
        .tells("is the same group or is merged into it");
    db.fails(2, format!("dlq groups merge {from} {other}"))
        .tells(format!("group {from} is merged into group {into} already"));
    let rule = db.run("dlq groups rules list --json").json();
    assert_eq!(rule["group"].to_string(), from);
    assert_eq!(rule["into"].to_string(), into);
    let rule = &rule["id"];
    db.run(format!("dlq groups merge {from} {into} --yes"))
        .shows("0 letters moved");
    db.fails(2, format!("dlq groups merge {from} {other} --yes"))
        .tells(format!("group {from} is merged into group {into} already"));
    db.run(format!("dlq groups rules remove {rule}"));
    db.fails(1, format!("dlq groups rules remove {rule}"));
    db.fails(1, format!("dlq groups merge {from} 999"));

    assert_eq!(group(&db, "card declined"), from);
    let mut holder = db.begins("SELECT FROM redrive.dead_letters FOR UPDATE");
    db.fails(1, format!("dlq groups merge {from} {into} --yes"))
        .tells("locked by another operation: 1 letter; repeat the command for them");
    holder.sql("ROLLBACK");
    db.run(format!("dlq groups merge {from} {into} --yes --json"))
        .holds(&json!({"letters": 1}));
}

#[test]
fn a_dry_run_of_a_split_shows_the_rule_that_the_group_has() {
    let db = TestDatabase::migrated();
    let all = group(&db, "shard 11 is down");
    assert_eq!(group(&db, "shard 27 is down"), all);
    let split = format!("dlq groups split {all} --error 'shard 2'");
    db.run(&split).shows(format!(
        "1 letter of group {all} would move to a new group."
    ));
    db.run(format!("{split} --yes")).shows("1 letter moved");
    db.fails(1, &split)
        .tells("matches; it is split by this pattern already (rule 1)");
}
