//! Which letters the rules of retention archive and delete.

use redrive_tests::prelude::*;

use super::{left, make};

#[test]
fn the_rule_of_a_queue_takes_precedence_over_the_default() {
    let (_test, db, mut client) = TestDatabase::with_handle();
    for queue in ["a", "b"] {
        for days in [10, 50, 100] {
            make(&mut client, queue, LetterState::Recovered, days, 2);
            make(&mut client, queue, LetterState::Discarded, days, 1);
            make(&mut client, queue, LetterState::Open, days, 1);
        }
    }
    let operator = Operator::new("maria@ops-1").reason("disk");
    let rules = [
        RetentionRule::delete(LetterState::Recovered, 30 * DAY),
        RetentionRule::archive(LetterState::Recovered, 90 * DAY).queue("a"),
        RetentionRule::delete(LetterState::Discarded, 5 * DAY).queue("b"),
    ];
    let retention = db.dlq().retention();
    for rule in &rules {
        retention.set(rule, &operator).unwrap();
    }
    assert_eq!(retention.list().unwrap(), rules);

    assert_eq!(db.dlq().retention().apply(&operator).unwrap(), 9);
    let of_a = ["a discarded 3", "a open 3", "a recovered 4"];
    let of_b = ["b open 3", "b recovered 2"];
    assert_eq!(left(&mut client), [&of_a[..], &of_b].concat());
    assert_eq!(client.count("archived_letters WHERE queue = 'a'"), 2);
    assert_eq!(client.count("archived_letters"), 2);
    let audit = "SELECT sum(letters)::bigint FROM redrive.audit WHERE verb = 'apply_retention' AND reason = 'disk'";
    assert_eq!(scalar(&mut client, audit), 9);

    for removed in [true, false] {
        let found = retention.remove(Some("a"), LetterState::Recovered, &operator);
        assert_eq!(found.unwrap(), removed);
    }
    let taken = retention.apply(&operator).unwrap();
    assert_eq!(taken, 2, "now the rule for all is that of `a`");
}

#[test]
fn a_letter_that_a_consumer_has_claimed_stays() {
    let (_test, db, mut client) = TestDatabase::with_handle();
    let failure = ForeignFailure::new("kafka", "1", "orders", "order", *b"{}");
    db.captures(&failure);
    client.sql("UPDATE redrive.dlq_events SET status = 'PROCESSING'");
    db.retains(&RetentionRule::archive(LetterState::Open, Duration::ZERO));
    assert_eq!(db.tidies_up(), 0);
    client.sql("UPDATE redrive.dead_letters SET claimed_until = now()");
    assert_eq!(db.tidies_up(), 1);
}

#[test]
fn no_rule_deletes_letters_that_wait_for_an_operator() {
    use LetterState::{Open, Quarantined, Recovered, Redriving};
    let (_test, db, mut client) = TestDatabase::with_handle();
    for state in [Open, Quarantined, Redriving, Recovered] {
        make(&mut client, "q", state, 10_000, 3);
    }
    assert_eq!(db.tidies_up(), 0, "without a rule all is kept");
    for state in [Open, Quarantined, Redriving] {
        let rule = RetentionRule::delete(state, DAY);
        let set = db.dlq().retention().set(&rule, &Operator::default());
        assert!(set.is_err_and(|error| error.is_invalid()), "it waits");
        let call = format!("SELECT redrive.set_retention('q', '{state}', '1 day')");
        client.batch_execute(&call).expect_err("it waits");
        let row = format!("(state, keep, action) VALUES ('{state}', '1 day', 'delete')");
        let insert = format!("INSERT INTO redrive.retention {row}");
        client.batch_execute(&insert).expect_err("it waits");
    }
    assert_eq!(db.tidies_up(), 0);
    db.prunes(Duration::ZERO);
    let kept = ["q open 3", "q quarantined 3", "q redriving 3"];
    assert_eq!(left(&mut client), kept);
    for state in [Open, Quarantined] {
        db.retains(&RetentionRule::archive(state, DAY));
    }
    assert_eq!(db.tidies_up(), 6);
    assert_eq!(left(&mut client), ["q redriving 3"]);
    assert_eq!(client.count("archived_letters"), 6);
}
