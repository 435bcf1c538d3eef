//! The statements: each is valid and documented. Their plans are tested in `plans`.

use postgres::types::Type;
use redrive::Job;
use redrive_tests::{Begin, Order, Sql, TestDatabase, counted, drained, stop, worker};

#[test]
fn every_statement_is_valid_in_a_migrated_database() {
    let (_test, mut client) = TestDatabase::with_client();
    let mut statements = 0;
    for (name, text) in redrive::statements() {
        statements += 1;
        if name.starts_with("copy_") {
            let copy = client
                .copy_in(text)
                .unwrap_or_else(|error| panic!("{name}: {error:?}"));
            // Only the frame of the format: signature, flags, extension, trailer.
            let mut empty = b"PGCOPY\n\xff\r\n\0".to_vec();
            empty.extend([0; 8]);
            empty.extend([0xff, 0xff]);
            let mut copy = copy;
            std::io::Write::write_all(&mut copy, &empty).unwrap();
            assert_eq!(
                copy.finish()
                    .unwrap_or_else(|error| panic!("{name}: {error:?}")),
                0
            );
        } else {
            client
                .prepare(text)
                .unwrap_or_else(|error| panic!("{name}: {error:?}"));
        }
    }
    assert!(statements > 20, "only {statements} statements");
}

#[test]
fn every_statement_header_lists_the_types_of_its_parameters() {
    let (_test, mut client) = TestDatabase::with_client();
    let texts = redrive::statements().map(|(_, text)| text);
    for ((name, declared), text) in redrive::signatures().zip(texts) {
        let prepared = client.prepare(text).expect(name);
        assert_eq!(declared, prepared.params(), "{name}.sql");
        // Of any other type the driver asks by statements that it prepares, and keeps, by name.
        for column in prepared.columns() {
            let known = Type::from_oid(column.type_().oid());
            assert!(known.is_some(), "{name}.sql answers {column:?}");
        }
    }
}

#[test]
fn a_worker_with_plans_from_an_empty_table_drains_a_burst() {
    let (test, mut client) = TestDatabase::with_client();
    client.sql("ANALYZE");
    let queue = test.queue("orders");
    let worker = worker(&queue).slots(2).runs(|_: &Job<Order>| Ok(()));
    // Enough claims for the server to cache a generic plan.
    for round in 1..=10 {
        queue.enqueue(&Order { number: 1 }).unwrap();
        counted(&worker, "the job to be done", |counts| counts.done == round);
    }
    queue.enqueue_many(&Order::up_to(50_000)).unwrap();
    drained(&queue);
    counted(&worker, "the burst to be done", |counts| {
        counts.done == 50_010
    });
    stop(worker);
}

/// A block with an exception handler starts a subtransaction, which a parallel query cannot do.
#[test]
fn no_function_that_handles_exceptions_runs_in_a_parallel_query() {
    let test = TestDatabase::migrated();
    let asked = r"SELECT proname::text FROM pg_proc WHERE pronamespace = 'redrive'::regnamespace
                  AND proparallel <> 'u' AND prosrc ~ '\mEXCEPTION\M\s+\mWHEN\M'";
    let found: Vec<String> = test.client().column(asked, &[]);
    assert_eq!(found, Vec::<String>::new());
}
