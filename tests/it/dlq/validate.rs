//! Validation of letters, without side effects.

use redrive_tests::prelude::*;

#[test]
fn validation_counts_passing_letters_and_groups_failing_ones() {
    let (test, queue, ids) = TestDatabase::with_letters(43);
    let spoil = r#"UPDATE redrive.dead_letters SET payload = '{"nummer": 1}' WHERE id IN ($1, $2)"#;
    test.client().change(spoil, &[&ids[0].get(), &ids[7].get()]);
    let db = queue.database();
    let validators = Validators::new().check(|order: &Order| match order.number {
        3 => panic!("cannot bear order 3"),
        ..=20 => Ok(()),
        number => Err(format!("order {number} is over the limit")),
    });
    let found = db.dlq().validate(&of_orders(), &validators).unwrap();
    assert_eq!((found.passed, found.failed, found.unchecked), (17, 26, 0));
    let [limit, field, panicked] = &found.errors[..] else {
        panic!("three errors: {:?}", found.errors)
    };
    assert_eq!(&*limit.message, "order ? is over the limit");
    assert_eq!(&*limit.sample, "order 21 is over the limit");
    assert_eq!(limit.letters, 23);
    assert_eq!(limit.ids, ids[20..25]);
    has(&field.sample, "missing field");
    assert_eq!(field.ids, [ids[0], ids[7]]);
    has(&panicked.sample, "cannot bear order 3");
    assert_eq!(panicked.ids, [ids[2]]);

    let decodes = Validators::new().decodes::<Order>();
    let one = db.dlq().validate(&only(ids[7]), &decodes).unwrap();
    assert_eq!((one.passed, one.failed), (0, 1));
    let limited = of_orders().limit(5);
    let some = db.dlq().validate(&limited, &validators).unwrap();
    assert_eq!(some.passed + some.failed, 5);
}

#[test]
fn captured_bytes_and_kinds_without_a_validator_are_reported_separately() {
    let (_test, db) = TestDatabase::opened();
    for (position, kind, raw) in [
        ("1", "order", &b"{\"number\": 1}"[..]),
        ("2", "order", b"{\"number\": "),
        ("3", "other", b"\xff"),
    ] {
        let event = ForeignFailure::new("kafka", position, "orders", kind, raw);
        db.captures(&event);
    }
    let validators = Validators::new().decodes::<Order>();
    let found = db.dlq().validate(&of_orders(), &validators).unwrap();
    assert_eq!((found.passed, found.failed, found.unchecked), (1, 1, 1));
    assert!(found.errors[0].message.contains("not JSON"));
    let whole = validators.kind("other", |letter: &Letter| match &letter.raw {
        Some(raw) if raw == b"\xff" => Ok(()),
        _ => Err("other bytes"),
    });
    let found = db.dlq().validate(&of_orders(), &whole).unwrap();
    assert_eq!((found.passed, found.failed, found.unchecked), (2, 1, 0));
}
