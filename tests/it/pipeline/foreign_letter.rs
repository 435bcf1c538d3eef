//! A death never replaces the letter of another job. A new job gets the id of an old letter when the
//! sequence of ids lags behind, for example after a logical restore.

use redrive_tests::prelude::*;

/// Stores a letter in the queue `old` and sets the sequence back, so that the next job gets its id.
fn lagging(test: &TestDatabase) -> JobId {
    let id = letters(&test.queue("old"), 1)[0];
    let back = "SELECT setval('redrive.job_id', $1, false)";
    test.client().change(back, &[&id.get()]);
    id
}

fn letter(test: &TestDatabase, id: JobId) -> Option<Letter> {
    test.open().dlq().get(id).unwrap()
}

/// The queue of a letter.
fn queue_of(test: &TestDatabase, id: JobId) -> String {
    letter(test, id).expect("a letter").queue
}

fn delete(client: &mut Client, id: JobId) {
    let delete = "DELETE FROM redrive.dead_letters WHERE id = $1";
    client.change(delete, &[&id.get()]);
}

#[test]
fn a_settled_death_keeps_the_letter_of_another_job_and_is_repeated() {
    let (test, queue) = TestDatabase::with_orders();
    let logged = Logged::start(LevelFilter::Error);
    let taken = lagging(&test);
    let ids = queue.enqueue_many(&Order::up_to(3)).unwrap();
    assert_eq!(ids[0], taken);
    let worker = worker(&queue).runs(|_: &Job<Order>| Err::<(), _>(Failure::reject("new")));
    wait_until("the other deaths", SOON, || {
        letter(&test, ids[1]).is_some() && letter(&test, ids[2]).is_some()
    });
    let kept = letter(&test, taken).unwrap();
    assert_eq!((&*kept.queue, kept.deaths), ("old", 1));
    let mut client = test.client();
    assert_eq!(client.count("leases"), 1);
    let told = |line: &String| line.contains("setval") && line.contains(&format!("job {taken}"));
    assert!(logged.lines().iter().any(told), "{:?}", logged.lines());

    delete(&mut client, taken);
    drained(&queue);
    assert_eq!(queue_of(&test, taken), "orders");
    assert_eq!(stop(worker).stats.dead, 3);
}

#[test]
fn a_reaped_death_keeps_the_letter_of_another_job_and_holds_up_no_lease() {
    let (test, mut client) = TestDatabase::with_client();
    let taken = lagging(&test);
    let (dies, back) = (taken.get() + 1, taken.get() + 2);
    let lease = |id: i64, crashes: i32, cancelled: &str| {
        format!(
            "INSERT INTO redrive.leases (lease_id, worker_id, queue, claimed_at, ids, kinds, payloads, \
                                         enqueued_at, metas[1].crashes, cancelled) \
             SELECT gen_random_uuid(), gen_random_uuid(), 'orders', now() - interval '1 day' + {id} * interval '1 second', \
                    ARRAY[{id}], ARRAY['order'], ARRAY['{{}}'::json], ARRAY[now()], {crashes}, \
                    '{{{cancelled}}}'"
        )
    };
    for (id, crashes) in [(taken.get(), 2), (dies, 2), (back, 0)] {
        client.sql(&lease(id, crashes, ""));
    }
    let lost = reap(&mut client);
    for expected in [Lost::Dead(JobId::new(dies)), Lost::Back(JobId::new(back))] {
        assert!(lost.contains(&expected) && lost.len() == 2, "{lost:?}");
    }
    assert_eq!(queue_of(&test, taken), "old");
    assert_eq!(reap(&mut client), []);
    assert_eq!(client.count("leases"), 1);

    delete(&mut client, taken);
    assert_eq!(reap(&mut client), [Lost::Dead(taken)]);
    assert_eq!(queue_of(&test, taken), "orders");

    // A cancelled job dies with its first crash.
    client.sql(&lease(taken.get(), 0, &taken.to_string()));
    assert_eq!(reap(&mut client), []);
}

#[test]
fn a_stop_releases_every_other_lease() {
    let (test, queue) = TestDatabase::with_orders();
    let gate = Gate::new();
    let worker = worker(&queue).slots(3).runs(gate.handler());
    let taken = lagging(&test);
    // One by one, so that each has its own lease.
    let ids = [1, 2, 3].map(|running| {
        let id = queue.enqueue(&Hold {}).unwrap();
        gate.wait_for(running);
        id
    });
    assert_eq!(ids[0], taken);
    test.open().cancels(taken);
    // A cancelled job dies at its release, and the database refuses this death.
    let error = worker.stop(Duration::ZERO).unwrap_err();
    has(format!("{error:?}"), "setval");
    let states = ids.map(|id| queue.live(id).state);
    assert_eq!(states, [JobState::Leased, JobState::Ready, JobState::Ready]);
    assert_eq!(queue_of(&test, taken), "old");
    gate.open();
}

#[test]
fn a_renewal_releases_every_other_lease_of_a_lost_claim() {
    let (test, queue, mut client) = TestDatabase::with_session();
    let taken = lagging(&test);
    let worker = lively(&queue).runs(|_: &Job<Order>| Ok(()));
    client.reaches("workers WHERE queue = 'orders'", 1);
    // One of the jobs is cancelled. It dies at its release, and the database refuses this death.
    client.sql(&format!(
        "INSERT INTO redrive.leases (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at, claimed_at, cancelled) \
         SELECT gen_random_uuid(), w.worker_id, w.queue, ARRAY[id], '{{other}}', ARRAY['{{}}'::json], ARRAY[now()], \
                now() - interval '1 minute', array_remove(ARRAY[id], 7) \
         FROM redrive.workers w, unnest(ARRAY[{taken}, 7]::bigint[]) AS id WHERE w.queue = 'orders'"
    ));
    client.reaches("leases", 1);
    assert_eq!(queue.live(JobId::new(7)).state, JobState::Ready);
    assert_eq!(queue_of(&test, taken), "old");

    delete(&mut client, taken);
    client.reaches("leases", 0);
    assert_eq!(queue_of(&test, taken), "orders");
    stop(worker);
}

#[test]
fn a_version_of_an_archived_letter_holds_up_no_death() {
    let (test, queue, ids) = TestDatabase::with_letters(1);
    let version =
        "INSERT INTO redrive.letter_versions (letter_id, version, payload) VALUES ($1, 0, '{}')";
    test.client().change(version, &[&ids[0].get()]);
    queue.redrives(&only(ids[0]));
    test.sql("UPDATE redrive.jobs SET payload = '{\"number\": 7}'");
    test.open().cancels(ids[0]);
    let letter = letter(&test, ids[0]).expect("a letter");
    assert_eq!((letter.state, letter.deaths), (LetterState::Open, 2));
}
