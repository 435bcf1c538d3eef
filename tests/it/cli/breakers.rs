//! Commands on breakers.

use redrive_tests::TestDatabase;
use serde_json::Value;

use super::redrive;

#[test]
fn breakers_are_opened_listed_and_closed() {
    let db = TestDatabase::migrated();
    redrive(&db, &["breaker", "list"]).exits_with(1);
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
        (&lines[1]["name"], &lines[1]["probe_at"]),
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
