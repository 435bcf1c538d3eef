//! Commands on breakers.

use redrive_tests::TestDatabase;
use serde_json::Value;

use super::redrive;

#[test]
fn breakers_are_opened_listed_and_closed() {
    let db = TestDatabase::migrated();
    redrive(&db, &["breaker", "list"]).exits_with(1);
    redrive(&db, &["enqueue", "orders", "order.placed", "1"]).exits_with(0);
    let open = [
        "breaker",
        "open",
        "queue:orders",
        "--reason",
        "an \u{1b}[31mupgrade",
    ];
    let output = redrive(&db, &open).exits_with(0);
    assert_eq!(
        output.out,
        "breaker queue:orders is open until it is closed\n"
    );
    let output = redrive(&db, &["breaker", "open", "payments-api", "--for", "30m"]).exits_with(0);
    assert_eq!(
        output.out,
        "breaker payments-api is open for 30m, then a job probes it\n"
    );
    let list = redrive(&db, &["breaker", "list"]).exits_with(0);
    assert_eq!(list.out.lines().count(), 3, "{}", list.out);
    assert!(
        list.out.contains("operator") && list.out.contains("never"),
        "{}",
        list.out
    );
    assert!(!list.out.contains('\u{1b}'), "{:?}", list.out);
    let lines = redrive(&db, &["breaker", "list", "--json"])
        .exits_with(0)
        .lines();
    assert_eq!(
        (&lines[1]["id"], &lines[1]["probe_at"]),
        (&Value::from("queue:orders"), &Value::Null)
    );
    assert_eq!(
        (&lines[0]["state"], &lines[0]["cause"]),
        (&Value::from("open"), &Value::from("operator"))
    );

    redrive(&db, &["breaker", "close", "queue:orders"]).exits_with(0);
    let output = redrive(&db, &["breaker", "close", "queue:orders"]).exits_with(1);
    assert!(output.err.contains("is not open"), "{}", output.err);
    assert_eq!(
        redrive(&db, &["breaker", "list", "--json"])
            .exits_with(0)
            .lines()
            .len(),
        1
    );
    assert_eq!(
        redrive(&db, &["breaker", "list", "--all", "--json"])
            .exits_with(0)
            .lines()
            .len(),
        2
    );
    redrive(&db, &["breaker", "open", "queue:"]).exits_with(2);
    redrive(&db, &["breaker", "open", "x", "--for", "0s"]).exits_with(2);
    let who = "SELECT count(*) FROM redrive.audit WHERE person LIKE '%@%'";
    let acts: i64 = db.client().query_one(who, &[]).unwrap().get(0);
    assert_eq!(acts, 3);
}

#[test]
fn a_breaker_that_pauses_nothing_is_refused_or_explained() {
    let db = TestDatabase::migrated();
    redrive(&db, &["enqueue", "orders", "order.placed", "1"]).exits_with(0);
    let refused = redrive(&db, &["breaker", "open", "orders"]).exits_with(1);
    assert!(
        refused.err.contains("redrive breaker open queue:orders"),
        "{}",
        refused.err
    );
    let refused = redrive(&db, &["breaker", "open", "queue:nosuch"]).exits_with(1);
    assert!(
        refused
            .err
            .contains("there is no queue `nosuch`; the only queue is `orders`"),
        "{}",
        refused.err
    );
    assert!(refused.err.contains("--any-name"), "{}", refused.err);
    redrive(&db, &["breaker", "list"]).exits_with(1);

    // A queue may be paused before it exists.
    redrive(&db, &["breaker", "open", "queue:nosuch", "--any-name"]).exits_with(0);
    let unknown = redrive(&db, &["breaker", "open", "payments-api"]).exits_with(0);
    assert!(
        unknown.err.contains("no handler has reported an outage"),
        "{}",
        unknown.err
    );
    // Once workers have reported its kinds, the dependency is known.
    db.client()
        .execute(
            "UPDATE redrive.breakers SET kinds = '{order.placed}' WHERE name = 'payments-api'",
            &[],
        )
        .unwrap();
    let known = redrive(&db, &["breaker", "open", "payments-api"]).exits_with(0);
    assert_eq!(known.err, "");
    let open = redrive(&db, &["breaker", "list", "--json"]).exits_with(0);
    assert_eq!(open.lines().len(), 2);
}
