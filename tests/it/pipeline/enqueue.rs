//! Enqueue: one, many, delayed, in the caller's transaction, and from SQL.

use redrive_tests::prelude::*;

#[test]
fn ready_and_delayed_jobs_can_be_mixed() {
    let (test, queue) = TestDatabase::with_orders();
    // None, one statement, its limit, and COPY.
    for size in [0, 1, 2, 1000, 1001] {
        let delay = |n: i64| if n % 2 == 0 { 0 } else { 60 + n.unsigned_abs() };
        let jobs = (0..size).map(|n| {
            let new = new_order(n).priority(i16::try_from(n % 7).unwrap());
            new.delay(Duration::from_secs(delay(n))).max_attempts(3)
        });
        let jobs: Vec<NewJob> = jobs.collect();
        let ids = ids(&queue.enqueue_jobs(&jobs).unwrap());
        assert!(ids.is_sorted(), "of {size}");
        let ids: Vec<i64> = ids.iter().map(|id| id.get()).collect();
        let asked = "SELECT (payload ->> 'number')::bigint, state, priority, max_attempts, \
                     extract(epoch FROM run_at - enqueued_at)::float8 \
                     FROM redrive.live_jobs WHERE id = ANY ($1) ORDER BY id";
        let rows: Vec<(i64, String, i16, i32, f64)> = test.client().rows(asked, &[&ids]);
        assert_eq!(rows.len(), ids.len());
        for (n, row) in (0..).zip(rows) {
            let state = if n % 2 == 0 { "ready" } else { "delayed" };
            let priority = i16::try_from(n % 7).unwrap();
            let found = (row.0, &*row.1, row.2, row.3);
            assert_eq!(found, (n, state, priority, 3), "of {size}");
            let late = row.4 - Duration::from_secs(delay(n)).as_secs_f64();
            assert!(late.abs() < 2.0, "job {n} of {size}: {late} s");
        }
    }
}

#[test]
fn a_rolled_back_transaction_leaves_no_job() {
    let (test, queue, mut client) = TestDatabase::with_session();
    let mut tx = client.transaction().unwrap();
    queue.enqueue_in(&mut tx, &Order { number: 1 }).unwrap();
    let many: Vec<NewJob> = (1..=1500).map(new_order).collect();
    queue.enqueue_jobs_in(&mut tx, &many).unwrap();
    assert_eq!(tx.count("jobs"), 1501, "seen by the transaction itself");
    assert_eq!(test.count("jobs"), 0, "seen by others");
    tx.rollback().unwrap();
    assert!(queue.is_drained().unwrap());
}

#[test]
fn a_committed_transaction_stores_its_jobs_and_its_other_writes() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    client.sql("CREATE TABLE orders (id bigint)");
    let mut tx = client.transaction().unwrap();
    tx.sql("INSERT INTO orders VALUES (42)");
    let one = queue.enqueue_in(&mut tx, &Order { number: 42 }).unwrap();
    let later = new_order(43).delay(Duration::from_mins(1));
    let later = queue.enqueue_job_in(&mut tx, &later).unwrap().id();
    tx.commit().unwrap();
    let jobs = [queue.live(one), queue.live(later)];
    let states = jobs.map(|job| job.state);
    assert_eq!(states, [JobState::Ready, JobState::Delayed]);
}

#[test]
fn chunks_of_jobs_are_stored_together_or_not_at_all() {
    const ENDED: &str = "SELECT pg_terminate_backend(pid, 20000) FROM pg_stat_activity \
                         WHERE datname = current_database() AND state = 'idle in transaction'";
    let (test, queue) = TestDatabase::with_orders();
    // By one statement, and by COPY.
    let chunks = || [1, 1001].map(|size| (1..=size).map(new_order).collect::<Vec<NewJob>>());
    let stored = |last: &dyn Fn() -> redrive::Result<Option<Vec<NewJob>>>| {
        let mut chunks = chunks().into_iter();
        queue.enqueue_chunks(|| chunks.next().map_or_else(last, |chunk| Ok(Some(chunk))))
    };
    let invalid = stored(&|| Ok(Some(vec![new_order(1).priority(1001)])));
    assert!(invalid.is_err_and(|error| error.is_invalid()));
    for more in [Some(vec![new_order(1)]), None] {
        // Neither a later chunk nor the commit uses another connection.
        let lost = stored(&|| {
            test.sql(ENDED);
            Ok(more.clone())
        });
        assert!(lost.is_err_and(|error| error.is_unavailable()));
    }
    assert_eq!(test.count("jobs"), 0);
    stored(&|| Ok(None)).unwrap();
    assert_eq!(test.count("jobs"), 1002);
}

#[test]
fn one_invalid_job_rejects_the_batch_and_is_named_by_position() {
    let (_test, queue) = TestDatabase::with_orders();
    for size in [3, 2000] {
        let mut jobs: Vec<NewJob> = (1..=size).map(new_order).collect();
        jobs[1] = new_order(2).priority(1001);
        let error = queue.enqueue_jobs(&jobs).expect_err("out of range");
        assert!(error.is_invalid(), "{error:?}");
        has(&error, format!("job 2 of {size}"));
    }
    assert!(queue.is_drained().unwrap());
}

#[test]
fn the_sql_function_enqueues_in_the_callers_transaction() {
    let (test, db, mut client) = TestDatabase::with_handle();
    let few = "'orders', 'order', '[1]'";
    let all = "queue => 'orders', kind => 'order', payload => 'null', delay => '1 hour', priority => 7, max_attempts => 2";
    for (arguments, expected, payload) in [
        (few, (JobState::Ready, 0, 5), "[1]"),
        (all, (JobState::Delayed, 7, 2), "null"),
    ] {
        let id = client.ask(&format!("SELECT redrive.enqueue({arguments})"), &[]);
        let job = db.live(JobId::new(id));
        assert_eq!((job.state, job.priority, job.max_attempts), expected);
        assert_eq!(job.payload.get(), payload);
    }
    let mut tx = client.transaction().unwrap();
    tx.sql("SELECT redrive.enqueue('orders', 'order', '{}')");
    tx.rollback().unwrap();
    assert_eq!(test.count("jobs"), 1);
    let headers = r#"'{"a": "b", "redrive-payload-version": 2}'"#;
    let more =
        format!("headers => {headers}, unique_key => repeat('x', 200), expires_in => '1.5 s'");
    let id = client.ask(&format!("SELECT redrive.enqueue({few}, {more})"), &[]);
    let headers = db.live(JobId::new(id)).headers;
    let expected =
        json!({"a": "b", "redrive-expires-in-ms": "1500", "redrive-payload-version": "2"});
    assert_eq!(json!(headers), expected);
}

#[test]
fn the_sql_function_rejects_invalid_arguments() {
    let (test, mut client) = TestDatabase::with_client();
    client.refuses_each(
        "SELECT redrive.enqueue(@)",
        r"
        NULL, 'k', '{}'                  -- 22023 redrive: invalid queue name
        '', 'k', '{}'                    -- 22023 redrive: invalid queue name
        ' q', 'k', '{}'                  -- 22023 redrive: invalid queue name
        repeat('x', 101), 'k', '{}'      -- 22023 redrive: invalid queue name
        'q', E'k\n', '{}'                -- 22023 redrive: invalid kind name
        'q', 'k', NULL                   -- 22023 redrive: the payload is NULL
        'q', 'k', to_jsonb(repeat('x', 1048575)) -- 22023 redrive: the payload is 1048577 bytes; the limit is 1048576",
    );
    client.refuses_each(
        "SELECT redrive.enqueue('q', 'k', '{}', @)",
        r#"
        delay => NULL                    -- 22023 redrive: the delay
        delay => '-1 s'                  -- 22023 redrive: the delay
        delay => '3651 days'             -- 22023 redrive: the delay
        priority => 1001                 -- 22023 redrive: the priority is 1001
        priority => NULL                 -- 22023 redrive: the priority
        max_attempts => 0                -- 22023 redrive: max_attempts is 0
        max_attempts => 1001             -- 22023 redrive: max_attempts is 1001
        max_attempts => NULL             -- 22023 redrive: max_attempts
        headers => '[]'                  -- a JSON object
        headers => jsonb_build_object('a', repeat('x', 65536)) -- the limit is 65536 bytes
        headers => jsonb_build_object('a', repeat('x', 65527)), expires_in => '1 day' -- are 65573 bytes
        headers => '{"redrive-source": "x"}' -- are reserved
        headers => '{"redrive-payload-version": "0"}' -- a whole number from 1
        expires_in => '0'                -- longer than its delay
        expires_in => '1 hour', delay => '1 hour' -- longer than its delay
        expires_in => '3651 days'        -- at most 3650 days
        unique_key => ''                 -- redrive: the unique key is
        unique_key => repeat('x', 201)   -- redrive: the unique key is
        unique_key => 'a', replace => 'all' -- redrive: replace is all
        replace => 'both'                -- redrive: until_started, replace and unique_window need
        until_started => true            -- redrive: until_started, replace and unique_window need
        unique_window => '1 s'           -- need a unique key
        unique_key => 'b', unique_window => '0' -- longer than 0
        unique_key => 'b', unique_window => '-1 s' -- longer than 0
        unique_key => 'b', unique_window => '3651 days' -- at most 3650 days"#,
    );
    assert_eq!(test.count("live_jobs"), 0);
    // The largest payload.
    client.sql("SELECT redrive.enqueue('q', 'k', to_jsonb(repeat('x', 1048574)))");
    assert_eq!(test.count("live_jobs"), 1);
}
