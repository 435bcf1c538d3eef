//! Which failures are one group.

use redrive_tests::prelude::*;

use super::{die, the_group};

#[test]
fn a_new_failure_in_many_workers_makes_one_group() {
    let test = TestDatabase::migrated();
    thread::scope(|scope| {
        for number in 0..8 {
            let mut client = test.client();
            scope.spawn(move || die(&mut client, "Timeout", &format!("after {number} ms")));
        }
    });
    assert_eq!(the_group(&test.open()).open, 8);
}

#[test]
fn the_next_statement_applies_a_new_redaction() {
    let (_test, mut client) = TestDatabase::with_client();
    let mut transaction = client.transaction().unwrap();
    let message = "card 4111111111111111";
    let write = "INSERT INTO redrive.dead_letters (queue, kind, cause, error_class, error_message, payload, enqueued_at)
                 VALUES ('orders', 'order', 'exhausted', 'E', $1, '{}', now()) RETURNING error_message";
    let kept: String = transaction.ask(write, &[&message]);
    assert_eq!(kept, message);
    transaction.sql("INSERT INTO redrive.redactions (patterns) VALUES (ARRAY['[0-9]{16}'])");
    let kept: String = transaction.ask(write, &[&message]);
    assert_eq!(kept, "card [redacted]");
}
