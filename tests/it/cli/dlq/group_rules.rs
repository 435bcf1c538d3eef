//! The commands that merge and split groups.

use redrive_tests::prelude::*;

use super::super::redrive;

/// Captures a failure and returns its group.
fn group(db: &TestDatabase, message: &str, payload: &str) -> String {
    let mut client = db.client();
    client.change("SELECT redrive.capture('s', gen_random_uuid()::text, 'orders', 'order', convert_to($2, 'UTF8'),
                 error_message => $1)", &[&message, &payload]);
    let newest = "SELECT group_id FROM redrive.dead_letters ORDER BY id DESC LIMIT 1";
    client.ask::<i64>(newest, &[]).to_string()
}

#[test]
fn groups_are_merged_and_the_rule_is_removed() {
    let db = TestDatabase::migrated();
    let [from, into] = ["card declined", "no such customer"].map(|m| group(&db, m, "{}"));
    db.run(format!("dlq groups merge {from} {into} --dry-run"))
        .shows("1 letter would move")
        .shows("Nothing was changed.");
    assert_eq!(group(&db, "card declined", "{}"), from, "a dry run");
    db.fails(1, "dlq groups rules list");
    let told = format!("group {from} is merged into group {into}; 2 letters moved");
    db.run(format!("dlq groups merge {from} --into {into} --yes"))
        .shows(told);
    assert_eq!(group(&db, "card declined", "{}"), into);
    db.run("dlq groups rules list")
        .shows(format!("merge into {into}"))
        .shows("card declined");
    for yes in ["", " --yes"] {
        for (group, into) in [(&into, &from), (&from, &from)] {
            db.fails(2, format!("dlq groups merge {group} {into}{yes}"))
                .tells("is the same group or is merged into it");
        }
    }
    let rule = db.run("dlq groups rules list --json").json();
    assert_eq!(rule["group"].to_string(), from);
    assert_eq!(rule["into"].to_string(), into);
    let rule = &rule["id"];
    db.run(format!("dlq groups rules apply {rule}"));
    db.run(format!("dlq groups rules remove {rule}"));
    db.fails(1, format!("dlq groups rules remove {rule}"));
    db.fails(2, format!("dlq groups rules apply {rule}"))
        .tells(format!("group rule {rule} does not exist"));
    assert_eq!(group(&db, "card declined", "{}"), from);
    db.fails(1, format!("dlq groups merge {from} 999"));

    let mut holder = db.client();
    let mut holder = holder.transaction().unwrap();
    holder.sql("SELECT FROM redrive.dead_letters FOR UPDATE");
    db.fails(1, format!("dlq groups merge {from} {into} --yes"))
        .tells("locked by another operation: 1 letter. To move the rest:\n  redrive dlq groups rules apply ");
}

#[test]
fn a_change_that_fails_names_the_groups_that_changed() {
    let db = TestDatabase::migrated();
    let [first, second] = ["card declined", "no such customer"].map(|m| group(&db, m, "{}"));
    // By conditions, the group with more letters changes first.
    group(&db, "card declined", "{}");
    let open = |id: &str| format!("group {id} is open\n");
    db.run(format!("dlq groups reopen {second} {first} {second}"))
        .prints(open(&second) + &open(&first));
    let broken = format!(
        "CREATE FUNCTION public.broken() RETURNS trigger LANGUAGE plpgsql
             AS $$ BEGIN RAISE EXCEPTION 'broken'; END $$;
         CREATE TRIGGER broken BEFORE UPDATE ON redrive.groups FOR EACH ROW
             WHEN (NEW.id = {second} AND NEW.state <> OLD.state) EXECUTE FUNCTION public.broken()"
    );
    db.client().sql(&broken);
    db.fails(2, format!("dlq groups ack group={first},{second} --yes"))
        .prints(format!("group {first} is acknowledged\n"))
        .tells("broken");
}

#[test]
fn a_group_is_split_by_tenant() {
    let db = TestDatabase::migrated();
    let id = group(&db, "down", r#"{"tenant": "acme"}"#);
    group(&db, "down", "{}");
    let split = |by: &str, more: &[&str]| {
        let args = [&["dlq", "groups", "split", &id, "--by", by], more].concat();
        redrive(&db, &args)
    };
    let dry = split("payload.tenant", &["--dry-run"]).exits_with(0);
    dry.shows("acme");
    dry.shows("Nothing was changed.");
    let parts = split("payload.tenant", &["--json"]).exits_with(0).lines();
    assert_eq!((parts.len(), parts[0]["letters"].as_u64()), (1, Some(1)));
    split("payload.region", &[]).exits_with(1);
    split("queue", &[]).exits_with(2);
    split("error~(", &["--yes"]).exits_with(2);
    let done = split("payload.tenant", &["--yes", "--json"])
        .exits_with(0)
        .lines();
    assert_eq!(done[0]["letters"].as_u64(), Some(1));
    assert_ne!(group(&db, "down", r#"{"tenant": "acme"}"#), id);
    assert_eq!(group(&db, "down", "{}"), id);
}
