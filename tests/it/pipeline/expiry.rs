//! Jobs that do not start in time become letters of the cause `expired`, and no handler runs them.

use redrive_tests::prelude::*;

/// Lets two hours pass for all waiting jobs, and makes delayed ones due.
fn two_hours_later(test: &TestDatabase) {
    for table in ["redrive.jobs", "redrive.jobs_delayed"] {
        test.sql(&format!(
            "UPDATE {table} SET enqueued_at = enqueued_at - interval '2 hours'"
        ));
    }
    test.all_due();
}

/// Starts a worker that tells the numbers of the orders that its handler runs.
fn noting(queue: &Queue) -> (Worker, mpsc::Receiver<i64>) {
    let (runs, ran) = mpsc::channel();
    let builder = worker(queue).slots(2).flood_guard(1, HOUR);
    let worker = builder.runs(move |job: &Job<Order>| {
        runs.send(job.payload().number).unwrap();
        Ok(())
    });
    (worker, ran)
}

fn expired(db: &Database) -> Vec<Letter> {
    let expired = LetterFilter::new().cause(DeathCause::Expired).limit(10_000);
    db.listed(&expired)
}

#[test]
fn a_job_that_starts_too_late_becomes_a_letter_and_uses_no_attempt() {
    let (test, queue, mut client) = TestDatabase::with_session();
    // One way after the other to enqueue a job.
    let late = new_order(1).expires_in(HOUR).header("trace", "4bf9");
    let late = late.unique("today");
    let first = put(&queue, late.clone());
    let mut late_ids = vec![first];
    let some = [new_order(2), new_order(3).delay(HOUR / 2)];
    let some = some.map(|job| job.expires_in(HOUR));
    late_ids.extend(ids(&queue.enqueue_jobs(&some).unwrap()));
    let many = vec![new_order(4).expires_in(HOUR); 1001];
    late_ids.extend(ids(&queue.enqueue_jobs(&many).unwrap()));
    let sql =
        "SELECT redrive.enqueue('orders', 'order', '{\"number\": 5}', expires_in => '1 hour')";
    late_ids.push(JobId::new(client.ask(sql, &[])));
    let in_time = [
        new_order(6),
        new_order(7).expires_in(3 * HOUR),
        new_order(8).header("a", "b"),
    ];
    queue.enqueue_jobs(&in_time).unwrap();
    two_hours_later(&test);
    let (worker, ran) = noting(&queue);
    let counts = finish(&queue, worker).stats;
    assert_eq!((counts.done, counts.dead), (3, late_ids.len() as u64));
    assert_eq!(ran.try_iter().collect::<BTreeSet<_>>(), [6, 7, 8].into());

    let db = queue.database();
    let letters = expired(db);
    let mut dead: Vec<JobId> = letters.iter().map(|letter| letter.id).collect();
    dead.sort_unstable();
    late_ids.sort_unstable();
    assert_eq!(dead, late_ids);
    let letter = letters.iter().find(|letter| letter.id == first).unwrap();
    assert_eq!((letter.attempts, letter.history.len()), (0, 0));
    let why = "did not start within 3600s of its enqueue or its tick";
    let error = (&*letter.error_class, &*letter.error_message);
    assert_eq!(error, ("Expired", why));
    has(letter.headers.as_ref().unwrap(), "4bf9");
    // Its key is free, and the flood guard, which allows one letter, did not trip.
    assert!(matches!(queue.enqueue_job(late).unwrap(), Enqueued::New(_)));
    assert!(db.admin().breakers().unwrap().is_empty());
    no_drift(db);
}

#[test]
fn a_retry_after_the_time_dies_with_its_failed_attempts() {
    let (test, queue) = TestDatabase::with_orders();
    queue.enqueue_job(new_order(1).expires_in(HOUR)).unwrap();
    let failing = worker(&queue).backoff(Backoff::fixed(HOUR));
    let failing = failing.runs(|_: &Job<Order>| Err(Failure::retry("gateway down")));
    retried(&failing, 1);
    stop(failing);
    two_hours_later(&test);
    let (late, _) = noting(&queue);
    finish(&queue, late);
    let letters = expired(queue.database());
    assert_eq!(letters.len(), 1);
    assert_eq!((letters[0].attempts, letters[0].history.len()), (1, 1));
    let message = letters[0].history[0].error_message.as_deref();
    assert_eq!(message, Some("gateway down"));
}

#[test]
fn a_redriven_job_does_not_expire() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let expiring = new_order(1).expires_in(HOUR);
    put(&queue, expiring.header("trace", "4bf9"));
    // The header of a captured failure may have the name, too.
    let captured = ForeignFailure::new("kafka", "0/1", "orders", "order", r#"{"number": 2}"#);
    let captured = captured.header("redrive-expires-in-ms", "1");
    db.captures(&captured.header("trace", "77"));
    two_hours_later(&test);
    let (sees, seen) = mpsc::channel();
    let worker = worker(&queue).runs(move |job: &Job<Order>| {
        sees.send(format!("{:?}", job.headers())).unwrap();
        Ok(())
    });
    wait_until("the job to expire", SOON, || expired(db).len() == 1);
    db.redrives(&LetterFilter::new().queue("orders"));
    done(&worker, 2);
    stop(worker);
    let seen: BTreeSet<String> = seen.try_iter().collect();
    let captured = r#"{"redrive-position": "0/1", "redrive-source": "kafka", "trace": "77"}"#;
    let expected = [captured, r#"{"trace": "4bf9"}"#].map(str::to_owned);
    assert_eq!(seen, expected.into());
}
