//! Which letters a redrive selects, and what it reports.

use redrive_tests::prelude::*;

use super::fixable;

#[test]
fn letters_that_are_not_open_are_reported_as_skipped() {
    let (_test, queue, ids) = TestDatabase::with_letters(4);
    let db = queue.database();
    let live = queue.enqueue(&Order { number: 9 }).unwrap();
    let unknown = JobId::new(1_000_000);
    db.discards(&only(ids[0]));
    db.redrives(&only(ids[1]));
    let asked = [ids[0], ids[1], ids[2], live, unknown];
    let redriven = db.redrives(&LetterFilter::new().ids(asked));
    assert_eq!(redriven.redriven, [ids[2]]);
    let skipped = [
        (ids[0], Skip::NotOpen),
        (ids[1], Skip::NotOpen),
        (live, Skip::Gone),
        (unknown, Skip::Gone),
    ];
    assert_eq!(redriven.skipped, skipped);
    // A letter that is not open is never redriven, even if the filter selects it.
    for state in [LetterState::Discarded, LetterState::Redriving] {
        assert_eq!(db.redrives(&LetterFilter::new().state(state)).redriven, []);
    }
}

/// Returns the letters that the audit counts for an operation, and its rows.
fn audited(test: &TestDatabase, verb: &str) -> (i64, i64) {
    let asked =
        "SELECT coalesce(sum(letters), 0)::bigint, count(*) FROM redrive.audit WHERE verb = $1";
    test.client().row(asked, &[&verb])
}

#[test]
fn every_batch_is_audited_with_operator_and_reason() {
    let (test, queue, _) = TestDatabase::with_letters(1200);
    let db = queue.database();
    let operator = maria();
    let most = db.dlq().redrive(&of_orders().limit(1100), &operator);
    assert_eq!(most.unwrap().redriven.len(), 1100);
    assert_eq!(audited(&test, "redrive"), (1100, 1));
    db.discards(&LetterFilter::new());
    assert_eq!(audited(&test, "discard"), (100, 1));
    let asked = "SELECT DISTINCT person, reason, role, filter ->> 'queue' FROM redrive.audit WHERE verb = 'redrive'";
    let entry: (String, String, String, String) = test.client().row(asked, &[]);
    let expected = ["maria@ops-1", "INC-7", "postgres", "orders"].map(str::to_owned);
    assert_eq!(<[String; 4]>::from(entry), expected);
    // An operation that changes nothing is not audited.
    db.redrives(&LetterFilter::new().queue("nowhere"));
    assert_eq!(audited(&test, "redrive").1, 1);
}

#[test]
fn the_sql_functions_act_in_the_callers_transaction_and_record_who_and_why() {
    let (test, _, _) = TestDatabase::with_letters(5);
    let mut client = test.client();
    let acts = [
        "SELECT redrive.redrive('{}', 'fixed', 'maria', max_letters => 3)",
        "SELECT redrive.discard('{}', 'sold out', 'maria')",
        "SELECT redrive.reopen_discarded('{}', 'in stock', 'maria')",
    ];
    let mut transaction = client.transaction().unwrap();
    for act in acts {
        transaction.sql(act);
    }
    transaction.rollback().unwrap();
    assert_eq!((test.count("live_jobs"), test.count("audit")), (0, 0));
    for act in acts {
        client.sql(act);
    }
    let audit =
        "SELECT concat_ws(' ', verb, letters, person, reason) FROM redrive.audit ORDER BY id";
    let expected = [
        "redrive 3 maria fixed",
        "discard 2 maria sold out",
        "reopen 2 maria in stock",
    ];
    assert_eq!(client.column::<String>(audit, &[]), expected);
    assert_eq!(test.count("live_jobs"), 3);
}

#[test]
fn letters_can_be_redriven_to_another_queue_with_other_options() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let id = letters(&queue, 1)[0];
    let slow = test.queue("slow");
    let worker = worker(&slow).runs(|_: &Job<Order>| Err(Failure::reject("broken")));
    let options = RedriveOptions::new().to_queue("slow");
    let options = options.priority(-7).max_attempts(2);
    let done = db.redrives_with(&only(id), &options);
    assert_eq!(done.redriven, [id]);
    assert!(db.dlq().blocked(&only(id), None).unwrap().is_empty());
    finish(&slow, worker);
    let letter = db.letter(id);
    let found = (&*letter.queue, letter.priority, letter.max_attempts);
    assert_eq!(found, ("slow", -7, 2));
    // The queue is part of the fingerprint, but it is the same failure.
    assert_eq!(letter.alike, 1);
}

#[test]
fn wrong_options_are_refused_even_if_no_letter_matches() {
    let (_test, db) = TestDatabase::opened();
    let (all, nobody) = (LetterFilter::new(), Operator::default());
    for wrong in [
        RedriveOptions::new().to_queue(" "),
        RedriveOptions::new().priority(1001),
        RedriveOptions::new().max_attempts(0),
        RedriveOptions::new().delay(Duration::MAX),
    ] {
        let run = RunOptions::new().letters(wrong.clone());
        let refused = [
            db.dlq().redrive_with(&all, &wrong, &nobody).map(drop),
            db.dlq().runs().create(&all, &run, &nobody).map(drop),
        ];
        for refused in refused {
            assert!(refused.expect_err("wrong").is_invalid(), "{wrong:?}");
        }
    }
    let nowhere = RedriveOptions::new().to_queue(" ");
    let preview = db.dlq().preview_redrive(&all, &nowhere);
    assert!(preview.is_err_and(|error| error.is_invalid()));
    let run = RunOptions::new;
    for wrong in [run().rate(u32::MAX), run().tolerate(101)] {
        let refused = db.dlq().runs().create(&all, &wrong, &nobody);
        assert!(refused.expect_err("wrong").is_invalid(), "{wrong:?}");
    }
}

#[test]
fn only_force_with_a_reason_redrives_a_quarantined_letter() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let (worker, fixed) = fixable(&queue);
    let id = put(&queue, new_order(1).max_attempts(1));
    drained(&queue);
    for _ in 0..3 {
        db.redrives(&only(id));
        drained(&queue);
    }
    let state = || db.letter(id).state;
    assert_eq!(state(), LetterState::Quarantined);
    let unsaid = "SELECT count(*) FROM redrive.send_back($1, '{}', NULL, NULL, NULL, NULL)";
    assert_eq!(test.client().ask::<i64>(unsaid, &[&vec![id.get()]]), 0);
    let force = RedriveOptions::new().force();
    let forced = |operator: &Operator| db.dlq().redrive_with(&only(id), &force, operator);
    let refused = forced(&Operator::default()).expect_err("no reason");
    has(format!("{refused:#}"), "needs a reason");
    // The letter gets one more attempt and is quarantined again if it fails.
    let operator = Operator::default().reason("the supplier says it works");
    assert_eq!(forced(&operator).unwrap().redriven, [id]);
    drained(&queue);
    assert_eq!(state(), LetterState::Quarantined);
    fixed.store(true, Ordering::SeqCst);
    assert_eq!(forced(&operator).unwrap().redriven, [id]);
    finish(&queue, worker);
    assert_eq!(state(), LetterState::Recovered);
    let asked = "SELECT count(*) FILTER (WHERE e ->> 'event' = 'redriven'), \
                 count(*) FILTER (WHERE e ->> 'event' = 'forced' AND e ->> 'reason' LIKE 'the supplier%') \
                 FROM redrive.dead_letters, jsonb_array_elements(events) e";
    let events: (i64, i64) = test.client().row(asked, &[]);
    assert_eq!(events, (3, 2));
}
