//! Schedules that redrive: once per tick, and within the limits of their policy.

use redrive_tests::prelude::*;

use super::{due_since, history, read, set, status, try_tick};

/// Returns an hourly schedule with this policy.
fn hourly(name: &str, policy: Policy) -> Schedule {
    Schedule::every(name, HOUR).unwrap().redrive(policy)
}

/// Redrives the letters of a policy now.
fn trigger(db: &Database, name: &str) -> u64 {
    let triggered = db.schedules().trigger(name, &maria()).unwrap();
    let Triggered::Redriven(letters) = triggered else {
        panic!("{triggered:?}");
    };
    letters
}

/// Runs the tick that is due, and returns the number of letters.
fn tick(client: &mut impl GenericClient, name: &str, read: (i64, SystemTime)) -> Option<i64> {
    try_tick(client, name, read.0, read.1).get("letters")
}

/// Returns the schedules that a worker would tick now.
fn due(client: &mut Client) -> Vec<String> {
    let due = client.query(statement("due_schedules"), &[]);
    due.unwrap().iter().map(|row| row.get("name")).collect()
}

fn ids(client: &mut Client, condition: &str) -> BTreeSet<JobId> {
    let asked = format!("SELECT l.id FROM redrive.dead_letters l WHERE {condition}");
    let ids: Vec<i64> = client.column(&asked, &[]);
    ids.into_iter().map(JobId::new).collect()
}

#[test]
fn a_process_killed_in_a_tick_leaves_no_change() {
    let (test, queue, dead) = TestDatabase::with_letters(60);
    let db = queue.database();
    set(db, &hourly("p", Policy::new(LetterFilter::new())));
    let mut client = test.client();
    due_since(&mut client, "p", HOUR / 2);
    let read = read(&mut client, "p");
    let mut killed = test.client();
    let mut transaction = killed.transaction().unwrap();
    assert_eq!(tick(&mut transaction, "p", read), Some(50));
    // Another process does not wait for it.
    client.sql("SET lock_timeout = '2s'");
    assert_eq!(tick(&mut client, "p", read), None);
    let pid: i32 = transaction.ask("SELECT pg_backend_pid()", &[]);
    client.change("SELECT pg_terminate_backend($1, 60000)", &[&pid]);
    drop(transaction);
    assert_eq!(letters_in(db, "orders", LetterState::Open), 60);
    assert_eq!(tick(&mut client, "p", read), Some(50));
    let redriving = ids(&mut client, "l.state = 'redriving'");
    assert_eq!(redriving, dead[..50].iter().copied().collect());
}

#[test]
fn a_policy_takes_the_oldest_letters_below_its_generations() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    let db = queue.database();
    let dead = letters(&queue, 5);
    // The newest ids died first, and the oldest letter has been redriven as often as is allowed.
    client.sql("UPDATE redrive.dead_letters SET died_at = died_at - id * interval '1 hour', generation = 239");
    let last = "UPDATE redrive.dead_letters SET generation = 240 WHERE id = $1";
    client.change(last, &[&dead[4].get()]);
    let policy = Policy::new(of_orders()).batch(2).generations(240);
    set(db, &hourly("p", policy));
    for (redriven, redriving) in [(2, &dead[2..4]), (2, &dead[..4]), (0, &dead[..4])] {
        assert_eq!(trigger(db, "p"), redriven);
        let taken = ids(&mut client, "l.state = 'redriving'");
        assert_eq!(taken, redriving.iter().copied().collect());
    }
    // A row for each tick that sent something.
    let counts = "SELECT letters FROM redrive.audit WHERE verb = 'policy' ORDER BY id";
    assert_eq!(client.column::<i64>(counts, &[]), [2, 2]);
}

#[test]
fn the_delay_grows_with_the_generation_up_to_its_maximum() {
    let (_test, mut client) = TestDatabase::with_client();
    for (growth, generation, hours) in [
        (1.0, 0, 0.0),
        (1.0, 100_000, 0.0),
        (2.0, 0, 0.0),
        (2.0, 1, 1.0),
        (2.0, 2, 3.0),
        (2.0, 4, 15.0),
        (2.0, 7, 127.0),
        (2.0, 8, 167.0),
        (2.0, 100_000, 167.0),
        (1.5, 1, 0.5),
        (100.0, 2, 167.0),
    ] {
        let asked =
            "SELECT extract(epoch FROM redrive.policy_wait('1 hour', $1, $2))::float8 / 3600";
        let wait: f64 = client.ask(asked, &[&growth, &generation]);
        assert!((wait - hours).abs() < 1e-6, "{growth} {generation}: {wait}");
    }
}

#[test]
fn letters_of_a_later_generation_wait_longer_also_with_a_cron_line() {
    let (test, queue, dead) = TestDatabase::with_letters(3);
    let db = queue.database();
    let age = "UPDATE redrive.dead_letters SET died_at = died_at - interval '2 hours', generation = id - $1";
    let first = dead[0].get();
    test.client().change(age, &[&first]);
    let daily = Schedule::cron("p", "@daily").unwrap();
    set(db, &daily.redrive(Policy::new(of_orders()).growth(2.0)));
    // Generation 1 waits an hour beyond its tick, generation 2 three hours.
    assert_eq!(trigger(db, "p"), 2);
    assert_eq!(letters_in(db, "orders", LetterState::Open), 1);
}

#[test]
fn a_policy_waits_for_the_breaker_of_its_queue_and_keeps_its_tick() {
    let (test, mut client) = TestDatabase::with_client();
    let (orders_queue, mails) = (test.queue("orders"), test.queue("mails"));
    let db = orders_queue.database();
    letters(&orders_queue, 2);
    letters(&mails, 3);
    let insert = "INSERT INTO redrive.breakers (name, state, cause, delay_ms, probe_at) \
                  VALUES ('queue:orders', 'open', 'operator', 1000, clock_timestamp() + interval '1 hour')";
    client.sql(insert);
    set(db, &hourly("of-all", Policy::new(LetterFilter::new())));
    set(db, &hourly("of-orders", Policy::new(of_orders())));
    for name in ["of-all", "of-orders"] {
        due_since(&mut client, name, HOUR / 2);
    }
    assert!(status(db, "of-orders").is_held && !status(db, "of-all").is_held);
    assert_eq!(due(&mut client), ["of-all"]);
    assert_eq!(trigger(db, "of-all"), 3, "not into the queue that waits");
    client.sql("UPDATE redrive.breakers SET state = 'closed', probe_at = NULL");
    assert_eq!(due(&mut client), ["of-all", "of-orders"]);
    assert_eq!(trigger(db, "of-orders"), 2);
}

#[test]
fn a_policy_waits_while_its_queue_is_paused() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    let db = queue.database();
    letters(&queue, 2);
    queue.pause(PauseEnd::Resumed, &maria()).unwrap();
    set(db, &hourly("p", Policy::new(of_orders())));
    due_since(&mut client, "p", HOUR / 2);
    assert!(due(&mut client).is_empty());
    assert!(status(db, "p").is_held);
    assert!(queue.resume(&maria()).unwrap());
    assert!(!status(db, "p").is_held);
    assert_eq!(due(&mut client), ["p"]);
    assert_eq!(trigger(db, "p"), 2);
}

#[test]
fn a_policy_redrives_only_letters_its_filter_and_limits_allow() {
    let (test, queue, mut client) = TestDatabase::with_session();
    let db = queue.database();
    let dead = letters(&queue, 6);
    // One is locked, one is quarantined, one is a capture that is not JSON.
    client.sql(&format!(
        "UPDATE redrive.dead_letters SET state = 'quarantined' WHERE id = {}; \
             UPDATE redrive.dead_letters SET payload = NULL, raw = 'x' WHERE id = {}",
        dead[1], dead[2]
    ));
    let _holder = test.locks(dead[0]);
    let some = LetterFilter::new().ids(dead[..5].iter().copied());
    set(db, &hourly("p", Policy::new(some)));
    assert_eq!(trigger(db, "p"), 2);
    let of_policy = "l.state = 'redriving' AND l.policy_id IS NOT NULL";
    assert_eq!(ids(&mut client, of_policy), [dead[3], dead[4]].into());
    let all = || Policy::new(LetterFilter::new());
    for refused in [
        Policy::new(LetterFilter::new().limit(5)),
        Policy::new(LetterFilter::new().after(dead[0])),
        Policy::new(LetterFilter::new().state(LetterState::Open)),
        all().batch(0),
        all().batch(10_001),
        all().generations(0),
        all().growth(0.5),
        all().growth(f64::NAN),
    ] {
        let refused = hourly("q", refused);
        let error = db.schedules().set(&refused, &maria()).unwrap_err();
        assert!(error.is_invalid(), "{refused:?}: {error}");
    }
    let most = all().growth(100.0).batch(10_000);
    set(db, &hourly("q", most));
}

#[test]
fn letters_whose_keys_are_held_take_no_places_of_the_batch() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    let db = queue.database();
    let keyed = |key: &str| put(&queue, new_order(1).unique(key));
    let held = ["one", "two"].map(|key| {
        let id = keyed(key);
        db.cancels(id);
        keyed(key);
        id
    });
    let free = keyed("three");
    db.cancels(free);
    set(db, &hourly("p", Policy::new(of_orders()).batch(2)));
    assert_eq!(trigger(db, "p"), 1);
    assert_eq!(ids(&mut client, "l.state = 'redriving'"), [free].into());
    assert_eq!(ids(&mut client, "l.state = 'open'"), held.into());
}

#[test]
fn a_policy_that_only_counts_reports_and_changes_nothing() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    let db = queue.database();
    letters(&queue, 7);
    let policy = Policy::new(LetterFilter::new()).batch(5);
    set(db, &hourly("p", policy.count_only()));
    assert_eq!(trigger(db, "p"), 5);
    assert_eq!(letters_in(db, "orders", LetterState::Open), 7);
    let last = &history(db, "p")[0];
    let counted = (last.outcome, last.letters, last.job);
    assert_eq!(counted, (TickOutcome::Counted, Some(5), None));
    let counted = "audit WHERE verb = 'policy' AND letters = 0 AND about ->> 'letters' = '5'";
    assert_eq!(client.count(counted), 1);
}
