//! The commands that merge and split groups.

use redrive_tests::TestDatabase;

use super::super::redrive;

/// Captures a failure and returns its group.
fn group(db: &TestDatabase, message: &str, payload: &str) -> String {
    let mut client = db.client();
    client
        .execute(
            "SELECT redrive.capture('s', gen_random_uuid()::text, 'orders', 'order', convert_to($2, 'UTF8'),
                 error_message => $1)",
            &[&message, &payload],
        )
        .unwrap();
    let newest = "SELECT group_id FROM redrive.dead_letters ORDER BY id DESC LIMIT 1";
    client
        .query_one(newest, &[])
        .unwrap()
        .get::<_, i64>(0)
        .to_string()
}

#[test]
fn groups_are_merged_and_the_rule_is_removed() {
    let db = TestDatabase::migrated();
    let [from, into] = ["card declined", "no such customer"].map(|m| group(&db, m, "{}"));
    let dry = redrive(&db, &["dlq", "groups", "merge", &from, &into]).exits_with(0);
    assert!(dry.out.contains("1 letter would move"), "{}", dry.out);
    assert!(dry.out.contains("Nothing was changed."), "{}", dry.out);
    assert_eq!(group(&db, "card declined", "{}"), from, "a dry run");
    redrive(&db, &["dlq", "groups", "rules", "list"]).exits_with(1);
    let done = redrive(
        &db,
        &["dlq", "groups", "merge", &from, "--into", &into, "--yes"],
    )
    .exits_with(0);
    let told = format!("group {from} is merged into group {into}; 2 letters moved");
    assert!(done.out.contains(&told), "{}", done.out);
    assert_eq!(group(&db, "card declined", "{}"), into);
    let listed = redrive(&db, &["dlq", "groups", "rules", "list"]).exits_with(0);
    assert!(
        listed.out.contains(&format!("merge into {into}")) && listed.out.contains("card declined"),
        "{}",
        listed.out
    );
    let rules = redrive(&db, &["dlq", "groups", "rules", "list", "--json"])
        .exits_with(0)
        .lines();
    assert_eq!(
        (
            &rules[0]["group"].to_string(),
            &rules[0]["into"].to_string()
        ),
        (&from, &into)
    );
    let rule = rules[0]["id"].to_string();
    redrive(&db, &["dlq", "groups", "rules", "apply", &rule]).exits_with(0);
    redrive(&db, &["dlq", "groups", "rules", "remove", &rule]).exits_with(0);
    redrive(&db, &["dlq", "groups", "rules", "remove", &rule]).exits_with(1);
    assert_eq!(group(&db, "card declined", "{}"), from);
    redrive(&db, &["dlq", "groups", "merge", &from]).exits_with(2);
    redrive(&db, &["dlq", "groups", "merge", &from, "999"]).exits_with(1);
    redrive(&db, &["dlq", "groups", "merge", &from, &from, "--yes"]).exits_with(2);
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
    let dry = split("payload.tenant", &[]).exits_with(0);
    assert!(
        dry.out.contains("acme") && dry.out.contains("Nothing was changed."),
        "{}",
        dry.out
    );
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
