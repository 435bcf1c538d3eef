//! Commands on breakers.

use redrive_tests::prelude::*;

#[test]
fn breakers_are_opened_listed_and_closed() {
    let db = TestDatabase::migrated();
    db.fails(1, "breaker list");
    db.run("enqueue orders order.placed 1");
    db.run("breaker open queue:orders --reason 'an \u{1b}[31mupgrade'")
        .prints("breaker queue:orders is open until it is closed\n");
    db.run("breaker open payments-api --for 30m")
        .prints("breaker payments-api is open for 30m, then a job probes it\n");
    let list = db.run("breaker list");
    assert_eq!(list.out.lines().count(), 3, "{}", list.out);
    list.shows("operator").shows("never").hides("\u{1b}");
    let lines = db.run("breaker list --json").lines();
    holds(&lines[1], &json!({"id": "queue:orders", "probe_at": null}));
    holds(&lines[0], &json!({"state": "open", "cause": "operator"}));

    db.run("breaker close queue:orders");
    db.fails(1, "breaker close queue:orders")
        .tells("is not open");
    assert_eq!(db.run("breaker list --json").lines().len(), 1);
    assert_eq!(db.run("breaker list --all --json").lines().len(), 2);
    assert_eq!(db.client().count("audit WHERE person LIKE '%@%'"), 3);
}

#[test]
fn a_breaker_that_pauses_nothing_is_opened_with_a_warning() {
    let db = TestDatabase::migrated();
    db.run("enqueue orders order.placed 1");
    db.run("breaker open orders")
        .tells("but a queue; its breaker is `queue:orders`")
        .tells("redrive breaker close orders");
    db.run("breaker close orders");
    db.run("breaker open -- -api")
        .tells("redrive breaker close -- -api");
    db.run("breaker close -- -api");
    // A queue may be paused before it exists.
    db.run("breaker open queue:nosuch")
        .tells("there is no queue `nosuch`; there is `orders`");
    db.run("breaker open payments-api")
        .tells("no handler has reported an outage");
    // Once workers have reported its kinds, the dependency is known.
    let known = "UPDATE redrive.breakers SET kinds = '{order.placed}' WHERE name = 'payments-api'";
    db.client().sql(known);
    db.run("breaker open payments-api").warns_not();
    assert_eq!(db.run("breaker list --json").lines().len(), 2);
}
