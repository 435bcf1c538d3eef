//! Policies: what is redriven by itself, by one process at a time, as often as it may and no more.

use std::collections::BTreeSet;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, SystemTime};

use postgres::{Client, GenericClient};
use redrive::{
    Act, Database, Failure, Hours, Job, JobId, LetterState, Letters, Policy, PolicyMode,
    PolicyStatus, Queue, Worker,
};
use redrive_tests::{
    Order, SOON, Tally, TestDatabase, drained, letters, letters_in, statement, stop, wait_until,
    worker,
};
use uuid::Uuid;

const HOUR: Duration = Duration::from_hours(1);

/// Runs what is due once, as the worker with this id would: the policy and its letters.
fn tick(client: &mut impl GenericClient, holder: Uuid) -> Option<(String, i64)> {
    let row = client
        .query_opt(statement("run_policies"), &[&holder, &60_000_i64])
        .expect("run the policies")?;
    assert_eq!(row.get::<_, Option<&str>>("trouble"), None);
    Some((row.get("policy"), row.get("letters")))
}

/// Moves the time of the letters and of the policies on.
fn later(client: &mut Client, by: Duration) {
    let ms = i64::try_from(by.as_millis()).unwrap();
    for table in [
        "policies SET next_at = next_at",
        "dead_letters SET died_at = died_at",
    ] {
        let moved = format!("UPDATE redrive.{table} - $1::bigint * interval '1 millisecond'");
        client.execute(&moved, &[&ms]).unwrap();
    }
}

fn ids(client: &mut Client, condition: &str) -> BTreeSet<JobId> {
    let asked = format!("SELECT l.id FROM redrive.dead_letters l WHERE {condition}");
    let rows = client.query(&asked, &[]).unwrap();
    rows.iter().map(|row| JobId::new(row.get(0))).collect()
}

fn status(db: &Database, name: &str) -> PolicyStatus {
    let mut found = db.policies().unwrap();
    found.retain(|policy| policy.name == name);
    found.pop().expect("the policy")
}

/// An instance of a program whose handler fails until an order is mended.
fn instance(queue: &Queue, mended: i64, tally: &Tally) -> Worker {
    let tally = tally.clone();
    worker(queue)
        .slots(4)
        .lease(Duration::from_secs(3))
        .handle(move |job: &Job<Order>| {
            tally.count(job.id());
            if job.payload().number <= mended {
                return Ok(());
            }
            Err(Failure::reject("the partner is away"))
        })
        .start()
        .unwrap()
}

#[test]
fn fifty_a_tick_every_six_hours_up_to_240_times_with_three_instances() {
    let test = TestDatabase::migrated();
    let queue = test.queue("events");
    let db = queue.database();
    let mut client = test.client();
    let every = 6 * HOUR;
    let dead = letters(&queue, 120);
    // The ten oldest are mended: their next attempt succeeds.
    let mended: BTreeSet<JobId> = dead.iter().copied().take(10).collect();
    client
        .execute("UPDATE redrive.dead_letters SET died_at = died_at - interval '1 day' + id * interval '1 second'", &[])
        .unwrap();

    let tally = Tally::new();
    let instances: Vec<Worker> = (0..3).map(|_| instance(&queue, 10, &tally)).collect();
    let policy = Policy::new("events", Letters::queue("events"))
        .every(every)
        .batch(50)
        .generations(240);

    let mut sent = 0;
    for round in 1..=5 {
        let oldest: BTreeSet<JobId> = client
            .query("SELECT id FROM redrive.dead_letters WHERE state = 'open' ORDER BY died_at, id LIMIT 50", &[])
            .map(|rows| rows.iter().map(|row| JobId::new(row.get(0))).collect())
            .unwrap();
        let runs: Vec<u32> = dead.iter().map(|id| tally.of(*id)).collect();
        // The first tick comes at once, and each of the others when six hours are over.
        if round == 1 {
            db.set_policy(&policy, &Act::new()).unwrap();
        } else {
            assert!(status(db, "events").next_at > SystemTime::now() + every - HOUR);
            later(&mut client, every);
        }
        sent += 50;
        wait_until("the tick", SOON, || status(db, "events").sent == sent);
        drained(&queue);
        wait_until("all letters to be back", SOON, || {
            letters_in(db, "events", LetterState::Redriving) == 0
        });
        for (id, ran) in dead.iter().zip(runs) {
            let now = u32::from(oldest.contains(id));
            assert_eq!(
                tally.of(*id),
                ran + now,
                "round {round}: {id}, the oldest fifty once each"
            );
        }
    }
    assert_eq!(ids(&mut client, "l.state = 'recovered'"), mended);
    assert!(
        mended.iter().all(|id| tally.of(*id) == 1),
        "a recovered letter is not taken"
    );
    assert_eq!(letters_in(db, "events", LetterState::Quarantined), 0);

    // Near the end of their tries: one goes a last time, all others have had theirs.
    let last = *dead.last().unwrap();
    let generations = "UPDATE redrive.dead_letters SET generation = CASE id WHEN $1 THEN 239 ELSE 240 END WHERE state = 'open'";
    client.execute(generations, &[&last.get()]).unwrap();
    let ran = tally.of(last);
    later(&mut client, every);
    wait_until("the last try", SOON, || tally.of(last) == ran + 1);
    drained(&queue);
    let tried: usize = tally.order().len();
    wait_until("all letters to be back", SOON, || {
        letters_in(db, "events", LetterState::Redriving) == 0
    });
    assert_eq!(status(db, "events").last_letters, 1);
    later(&mut client, every);
    wait_until("a tick with nothing to do", SOON, || {
        status(db, "events").last_letters == 0
    });
    drained(&queue);
    assert_eq!(tally.order().len(), tried, "240 times is the limit");
    assert_eq!(letters_in(db, "events", LetterState::Open), 110);
    let told: Vec<i64> = client
        .query(
            "SELECT letters FROM redrive.audit WHERE verb = 'policy' ORDER BY id",
            &[],
        )
        .map(|rows| rows.iter().map(|row| row.get(0)).collect())
        .unwrap();
    assert_eq!(
        told,
        [50, 50, 50, 50, 50, 1],
        "a row for each tick that sent something"
    );
    for instance in instances {
        stop(instance);
    }
}

#[test]
fn eight_processes_at_the_same_tick_run_it_once() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    letters(&queue, 90);
    let policy = Policy::new("p", Letters::all()).every(HOUR);
    queue.database().set_policy(&policy, &Act::new()).unwrap();
    for round in 1..=3_i64 {
        let barrier = Arc::new(Barrier::new(8));
        let racers: Vec<_> = (0..8)
            .map(|_| {
                let (mut client, barrier) = (test.client(), Arc::clone(&barrier));
                thread::spawn(move || {
                    barrier.wait();
                    tick(&mut client, Uuid::new_v4())
                })
            })
            .collect();
        let ran: Vec<i64> = racers
            .into_iter()
            .filter_map(|racer| racer.join().unwrap())
            .map(|(_, letters)| letters)
            .collect();
        let expected: &[i64] = match round {
            1 => &[50],
            2 => &[40],
            _ => &[0],
        };
        assert_eq!(ran, expected, "round {round}");
        let mut client = test.client();
        let jobs: i64 = client
            .query_one("SELECT count(*) FROM redrive.jobs", &[])
            .unwrap()
            .get(0);
        assert_eq!(jobs, [50, 90, 90][usize::try_from(round).unwrap() - 1]);
        client
            .execute("UPDATE redrive.policies SET next_at = clock_timestamp(), lease_until = clock_timestamp()", &[])
            .unwrap();
    }
}

#[test]
fn a_policy_stays_with_its_holder_until_the_lease_is_over() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let mut client = test.client();
    letters(&queue, 100);
    let policy = Policy::new("p", Letters::all()).batch(10).every(HOUR);
    db.set_policy(&policy, &Act::new()).unwrap();
    let (one, other) = (Uuid::new_v4(), Uuid::new_v4());
    assert_eq!(tick(&mut client, one), Some(("p".to_owned(), 10)));
    assert_eq!(tick(&mut client, one), None, "it is not due again");
    later(&mut client, HOUR);
    assert_eq!(tick(&mut client, other), None, "it belongs to the first");
    assert_eq!(tick(&mut client, one), Some(("p".to_owned(), 10)));
    assert_eq!(
        (status(db, "p").term, status(db, "p").holder),
        (1, Some(one))
    );
    // A sign of life keeps it; without one it goes to whoever comes next.
    let age = "UPDATE redrive.policies SET lease_until = clock_timestamp() + interval '1 second'";
    client.execute(age, &[]).unwrap();
    assert_eq!(tick(&mut client, one), None);
    later(&mut client, HOUR);
    let left: bool = client
        .query_one(
            "SELECT lease_until > clock_timestamp() + interval '40 seconds' FROM redrive.policies",
            &[],
        )
        .unwrap()
        .get(0);
    assert!(left, "renewed");
    client
        .execute(
            "UPDATE redrive.policies SET lease_until = clock_timestamp() - interval '1 second'",
            &[],
        )
        .unwrap();
    assert_eq!(tick(&mut client, other), Some(("p".to_owned(), 10)));
    assert_eq!(
        (status(db, "p").term, status(db, "p").holder),
        (2, Some(other))
    );
    later(&mut client, HOUR);
    assert_eq!(tick(&mut client, one), None, "it lost it");
    assert_eq!(status(db, "p").sent, 30);
}

#[test]
fn a_process_that_dies_in_the_middle_of_a_tick_has_done_nothing() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let dead = letters(&queue, 60);
    db.set_policy(&Policy::new("p", Letters::all()), &Act::new())
        .unwrap();
    let mut doomed = test.client();
    let mut transaction = doomed.transaction().unwrap();
    assert_eq!(
        tick(&mut transaction, Uuid::new_v4()),
        Some(("p".to_owned(), 50))
    );
    // Another one that looks meanwhile does not wait for it.
    let mut client = test.client();
    client.batch_execute("SET lock_timeout = '2s'").unwrap();
    assert_eq!(tick(&mut client, Uuid::new_v4()), None);
    let pid: i32 = transaction
        .query_one("SELECT pg_backend_pid()", &[])
        .unwrap()
        .get(0);
    client
        .query("SELECT pg_terminate_backend($1, 60000)", &[&pid])
        .unwrap();
    drop(transaction);
    assert_eq!(letters_in(db, "orders", LetterState::Open), 60);
    assert_eq!(
        tick(&mut client, Uuid::new_v4()),
        Some(("p".to_owned(), 50))
    );
    assert_eq!(
        ids(&mut client, "l.state = 'redriving'"),
        dead[..50].iter().copied().collect()
    );
}

#[test]
fn the_wait_grows_with_the_generation_up_to_its_longest() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    for (growth, generation, hours) in [
        (1.0, 0, 0.0),
        (1.0, 100_000, 0.0),
        (2.0, 0, 0.0),
        (2.0, 1, 1.0),
        (2.0, 2, 3.0),
        (2.0, 4, 15.0),
        (2.0, 5, 23.0),
        (2.0, 100_000, 23.0),
        (1.5, 1, 0.5),
        (100.0, 1, 23.0),
    ] {
        let asked = "SELECT extract(epoch FROM redrive.policy_wait('1 hour', $1, '1 day', $2))::float8 / 3600";
        let row = client.query_one(asked, &[&growth, &generation]).unwrap();
        let wait: f64 = row.get(0);
        assert!(
            (wait - hours).abs() < 1e-6,
            "{growth} {generation}: {wait} h"
        );
    }
}

#[test]
fn a_letter_that_keeps_dying_is_sent_at_growing_distances() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let mut client = test.client();
    let id = letters(&queue, 1)[0];
    let policy = Policy::new("p", Letters::queue("orders"))
        .every(HOUR)
        .growth(2.0)
        .longest_delay(4 * HOUR)
        .generations(5);
    db.set_policy(&policy, &Act::new()).unwrap();
    let tally = Tally::new();
    let one = Uuid::new_v4();
    let mut sent_at = Vec::new();
    for hour in 0..24 {
        if let Some((_, 1)) = tick(&mut client, one) {
            sent_at.push(hour);
            let worker = instance(&queue, 0, &tally);
            drained(&queue);
            stop(worker);
        }
        later(&mut client, HOUR);
    }
    assert_eq!(
        sent_at,
        [0, 2, 6, 10, 14],
        "two hours after the first, four after the second, then never more"
    );
    let letter = db.letter(id).unwrap().unwrap();
    assert_eq!(
        (letter.state, letter.generation),
        (LetterState::Open, 5),
        "a limit of its own, no quarantine"
    );
}

#[test]
fn outside_its_hours_a_policy_waits() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let mut client = test.client();
    for (from, to, hour, allowed) in [
        (9, 17, 9, true),
        (9, 17, 16, true),
        (9, 17, 17, false),
        (9, 17, 8, false),
        (22, 6, 23, true),
        (22, 6, 0, true),
        (22, 6, 5, true),
        (22, 6, 6, false),
        (22, 6, 21, false),
    ] {
        let row = client
            .query_one(
                "SELECT redrive.is_hour_allowed($1, $2, $3)",
                &[&from, &to, &hour],
            )
            .unwrap();
        assert_eq!(row.get::<_, bool>(0), allowed, "{from}-{to} at {hour}");
    }
    letters(&queue, 3);
    let now: i32 = client
        .query_one(
            "SELECT extract(hour FROM clock_timestamp() AT TIME ZONE 'UTC')::integer",
            &[],
        )
        .unwrap()
        .get(0);
    let hour = |plus: i32| u8::try_from((now + plus) % 24).unwrap();
    let policy = Policy::new("p", Letters::all());
    // Long after this one, so that the test cannot run into it.
    let closed = policy
        .clone()
        .hours(Hours::between(hour(3), hour(20)).unwrap());
    db.set_policy(&closed, &Act::new()).unwrap();
    assert_eq!(tick(&mut client, Uuid::new_v4()), None);
    let open = policy.hours(Hours::between(hour(20), hour(3)).unwrap());
    db.set_policy(&open, &Act::new()).unwrap();
    assert_eq!(tick(&mut client, Uuid::new_v4()), Some(("p".to_owned(), 3)));
}

#[test]
fn nothing_goes_into_a_queue_whose_breaker_is_open() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    let (orders, mails) = (test.queue("orders"), test.queue("mails"));
    let db = orders.database();
    letters(&orders, 2);
    letters(&mails, 3);
    client
        .batch_execute(
            "CREATE TABLE IF NOT EXISTS redrive.breakers \
               (name text PRIMARY KEY, state text NOT NULL, why text, delay_ms bigint, probe_at timestamptz); \
             INSERT INTO redrive.breakers (name, state, why, delay_ms, probe_at) \
             VALUES ('queue:orders', 'open', 'operator', 1000, clock_timestamp() + interval '1 hour')",
        )
        .unwrap();
    let one = Uuid::new_v4();
    db.set_policy(&Policy::new("of-all", Letters::all()), &Act::new())
        .unwrap();
    db.set_policy(
        &Policy::new("of-orders", Letters::queue("orders")),
        &Act::new(),
    )
    .unwrap();
    assert!(status(db, "of-orders").is_held && !status(db, "of-all").is_held);
    assert_eq!(tick(&mut client, one), Some(("of-all".to_owned(), 3)));
    assert_eq!(tick(&mut client, one), None, "it waits, and keeps its tick");
    client
        .execute(
            "UPDATE redrive.breakers SET state = 'closed', probe_at = NULL",
            &[],
        )
        .unwrap();
    assert_eq!(tick(&mut client, one), Some(("of-orders".to_owned(), 2)));
}

#[test]
fn a_dry_run_tells_and_changes_nothing() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let mut client = test.client();
    letters(&queue, 7);
    let policy = Policy::new("p", Letters::all()).batch(5).every(HOUR);
    db.set_policy(&policy.mode(PolicyMode::DryRun), &Act::new())
        .unwrap();
    let one = Uuid::new_v4();
    assert_eq!(tick(&mut client, one), Some(("p".to_owned(), 5)));
    assert_eq!(letters_in(db, "orders", LetterState::Open), 7);
    let told = status(db, "p");
    assert_eq!(
        (told.mode, told.last_letters, told.sent),
        (PolicyMode::DryRun, 5, 0)
    );
    let row = client
        .query_one(
            "SELECT letters, about FROM redrive.audit WHERE verb = 'policy'",
            &[],
        )
        .unwrap();
    let about: serde_json::Value = row.get("about");
    assert_eq!((row.get("letters"), &about["letters"]), (0_i64, &5.into()));

    // Paused it has no ticks; active again it acts.
    let act = Act::new().person("maria@ops-1").why("looks good");
    assert!(db.set_policy_mode("p", PolicyMode::Paused, &act).unwrap());
    later(&mut client, HOUR);
    assert_eq!(tick(&mut client, one), None);
    assert!(db.set_policy_mode("p", PolicyMode::Active, &act).unwrap());
    assert_eq!(tick(&mut client, one), Some(("p".to_owned(), 5)));
    assert_eq!(letters_in(db, "orders", LetterState::Redriving), 5);
    assert!(db.remove_policy("p", &act).unwrap());
    assert!(!db.remove_policy("p", &act).unwrap());
    assert!(!db.set_policy_mode("p", PolicyMode::Paused, &act).unwrap());
    let verbs: Vec<String> = client
        .query("SELECT verb FROM redrive.audit WHERE person = 'maria@ops-1' AND why = 'looks good' ORDER BY id", &[])
        .map(|rows| rows.iter().map(|row| row.get(0)).collect())
        .unwrap();
    assert_eq!(
        verbs,
        ["set_policy_mode", "set_policy_mode", "remove_policy"]
    );
}

#[test]
fn the_trouble_of_one_policy_does_not_stop_the_others() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let mut client = test.client();
    letters(&queue, 4);
    for name in ["broken", "good"] {
        db.set_policy(&Policy::new(name, Letters::all()), &Act::new())
            .unwrap();
    }
    client
        .execute("UPDATE redrive.policies SET filter = '{\"died_from\": \"nonsense\"}' WHERE name = 'broken'", &[])
        .unwrap();
    let one = Uuid::new_v4();
    let row = client
        .query_one(statement("run_policies"), &[&one, &60_000_i64])
        .unwrap();
    assert_eq!(row.get::<_, &str>("policy"), "broken");
    assert!(row.get::<_, &str>("trouble").contains("nonsense"));
    assert_eq!(tick(&mut client, one), Some(("good".to_owned(), 4)));
    let broken = status(db, "broken");
    assert!(
        broken
            .last_trouble
            .is_some_and(|trouble| trouble.contains("nonsense"))
    );
    assert!(
        broken.next_at < SystemTime::now() + HOUR / 2,
        "trouble is tried again soon"
    );
}

#[test]
fn a_policy_takes_only_what_its_filter_and_its_letters_allow() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let db = queue.database();
    let mut client = test.client();
    let dead = letters(&queue, 6);
    // One is locked by somebody, one is in quarantine, one was captured and is no JSON.
    client
        .batch_execute(&format!(
            "UPDATE redrive.dead_letters SET state = 'quarantined' WHERE id = {}; \
             UPDATE redrive.dead_letters SET payload = NULL, raw = 'x' WHERE id = {}",
            dead[1], dead[2]
        ))
        .unwrap();
    let mut holder = test.client();
    let mut transaction = holder.transaction().unwrap();
    transaction
        .execute(
            "SELECT FROM redrive.dead_letters WHERE id = $1 FOR UPDATE",
            &[&dead[0].get()],
        )
        .unwrap();
    db.set_policy(
        &Policy::new("p", Letters::ids(dead[..5].iter().copied())),
        &Act::new(),
    )
    .unwrap();
    assert_eq!(tick(&mut client, Uuid::new_v4()), Some(("p".to_owned(), 2)));
    assert_eq!(
        ids(
            &mut client,
            "l.state = 'redriving' AND l.policy_id IS NOT NULL"
        ),
        [dead[3], dead[4]].into()
    );
    for refused in [
        Letters::all().limit(5),
        Letters::all().after(dead[0]),
        Letters::all().state(LetterState::Open),
    ] {
        let error = db
            .set_policy(&Policy::new("q", refused), &Act::new())
            .expect_err("not a filter for a policy");
        assert!(error.is_invalid(), "{error}");
    }
}

/// Runs a command line; answers what it printed.
#[track_caller]
fn told(test: &TestDatabase, code: u8, arguments: &[&str]) -> String {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let program = [
        "redrive",
        "--database-url",
        test.url(),
        "--no-wait",
        "dlq",
        "policies",
    ];
    let arguments = program
        .iter()
        .chain(arguments)
        .map(std::ffi::OsString::from);
    let ended = redrive_cli::run(arguments, &mut out, &mut err);
    let err = String::from_utf8(err).unwrap();
    assert_eq!(ended, std::process::ExitCode::from(code), "{err}");
    String::from_utf8(out).unwrap()
}

#[test]
fn policies_are_set_listed_paused_and_removed_on_the_command_line() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    letters(&queue, 3);
    let mut client = test.client();
    told(&test, 1, &["list"]);
    let set = [
        "set",
        "events",
        "orders",
        "--every",
        "6h",
        "--batch",
        "2",
        "--generations",
        "240",
        "--growth",
        "1.5",
        "--why",
        "the partner sleeps",
    ];
    assert!(told(&test, 0, &set).contains("up to 2 letters back every 6h"));
    assert_eq!(
        tick(&mut client, Uuid::new_v4()),
        Some(("events".to_owned(), 2))
    );
    let list = told(&test, 0, &["list"]);
    assert!(
        list.lines().all(|line| line.chars().count() <= 80),
        "{list}"
    );
    for word in [
        "events",
        "active",
        "6h",
        "240",
        "5h 59m",
        "2, ",
        "queue orders",
    ] {
        assert!(list.contains(word), "`{word}` in {list}");
    }
    told(&test, 0, &["pause", "events"]);
    let json: serde_json::Value =
        serde_json::from_str(&told(&test, 0, &["list", "--json"])).unwrap();
    assert_eq!(
        (
            &json["mode"],
            &json["sent"],
            &json["filter"]["queue"],
            &json["every_ms"]
        ),
        (
            &"paused".into(),
            &2.into(),
            &"orders".into(),
            &21_600_000.into()
        )
    );
    told(&test, 0, &["resume", "events", "--dry-run"]);
    assert_eq!(status(queue.database(), "events").mode, PolicyMode::DryRun);
    for refused in [
        ["set", "p", "--hours=9-9"],
        ["set", "p", "--every=0s"],
        ["set", "p", "--growth=0.1"],
    ] {
        told(&test, 2, &refused);
    }
    told(&test, 0, &["remove", "events"]);
    told(&test, 1, &["remove", "events"]);
    told(&test, 1, &["pause", "events"]);
    let person: String = client
        .query_one(
            "SELECT person FROM redrive.audit WHERE why = 'the partner sleeps'",
            &[],
        )
        .unwrap()
        .get(0);
    assert!(person.contains('@'), "{person}");
}
