//! Each tick runs once, under races and failures.

use std::env;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::SystemTime;

use redrive::schedule::TickOutcome;
use redrive::{Failure, Job, Queue};
use redrive_tests::{
    Begin, Dead, Order, SOON, Sql, TestDatabase, counted, no_drift, of_orders, scalar, statement,
    stop, wait_until, worker,
};

use super::{HOUR, due_since, every, outcomes, read, set, status, tick, ticking};

#[test]
fn eight_processes_run_each_tick_once() {
    const ROUNDS: i64 = 20;
    let (test, db) = TestDatabase::opened();
    let mut client = test.client();
    set(&db, &every("hourly", HOUR));
    due_since(&mut client, "hourly", HOUR * 30);
    let barrier = Arc::new(Barrier::new(8));
    let racers: Vec<_> = (0..8)
        .map(|_| {
            let (mut client, barrier) = (test.client(), Arc::clone(&barrier));
            thread::spawn(move || {
                let mut won = 0;
                for _ in 0..ROUNDS {
                    let (version, due_at) = read(&mut client, "hourly");
                    barrier.wait();
                    won +=
                        tick(&mut client, "hourly", version, due_at).map_or(0, |jobs| jobs.len());
                    barrier.wait();
                }
                won
            })
        })
        .collect();
    let won: usize = racers.into_iter().map(|racer| racer.join().unwrap()).sum();
    assert_eq!(won, 20);
    assert_eq!(client.count("jobs"), ROUNDS);
    let distinct =
        "SELECT count(DISTINCT headers ->> 'redrive-scheduled-for') FROM redrive.live_jobs";
    assert_eq!(scalar(&mut client, distinct), ROUNDS);
}

#[test]
fn the_workers_of_eight_processes_run_each_tick_once() {
    let (test, db) = TestDatabase::opened();
    let mut client = test.client();
    let other = test.queue("other");
    // Any worker ticks any schedule, here of a queue that none of them serves.
    let workers: Vec<_> = (0..8)
        .map(|_| {
            let own = test.open();
            ticking(&Queue::new(&own, other.name()).unwrap())
        })
        .collect();
    for round in 1..=5 {
        for name in ["a", "b"] {
            if round == 1 {
                set(&db, &every(name, HOUR));
            }
            due_since(&mut client, name, HOUR / 120);
        }
        client.sql("SELECT pg_notify('redrive_schedule', '')");
        wait_until("the ticks", SOON, || client.count("jobs") >= 2 * round);
        for name in ["a", "b"] {
            assert!(status(&db, name).next_at.unwrap() > SystemTime::now());
        }
    }
    for worker in workers {
        stop(worker);
    }
    assert_eq!(client.count("jobs"), 10);
}

#[test]
fn a_process_that_dies_during_a_tick_leaves_it_to_another() {
    let (test, db) = TestDatabase::opened();
    let (mut client, mut dying) = (test.client(), test.client());
    set(&db, &every("hourly", HOUR));
    due_since(&mut client, "hourly", HOUR / 2);
    let (version, due_at) = read(&mut client, "hourly");
    let pid: i32 = dying.ask("SELECT pg_backend_pid()", &[]);
    let mut transaction = dying.transaction().unwrap();
    assert!(tick(&mut transaction, "hourly", version, due_at).is_some());
    // Another process does not wait for its lock.
    assert_eq!(tick(&mut client, "hourly", version, due_at), None);
    client.change("SELECT pg_terminate_backend($1)", &[&pid]);
    wait_until("the end of the session", SOON, || {
        let alive = format!("SELECT count(*) FROM pg_stat_activity WHERE pid = {pid}");
        scalar(&mut client, &alive) == 0
    });
    drop(transaction);
    let jobs = tick(&mut client, "hourly", version, due_at);
    assert_eq!(jobs.map(|jobs| jobs.len()), Some(1));
    assert_eq!(client.count("jobs"), 1);
}

#[test]
fn a_worker_runs_missed_ticks_when_it_starts() {
    let test = TestDatabase::migrated();
    let (db, queue) = (test.open(), test.queue("orders"));
    let mut client = test.client();
    set(&db, &every("hourly", HOUR));
    due_since(&mut client, "hourly", 3 * HOUR);
    // The look for chores would find the schedule too. It waits for this lock.
    let mut locker = test.client();
    let mut lock = locker.transaction().unwrap();
    lock.sql("LOCK TABLE redrive.retention");
    let worker = ticking(&queue);
    let fired = "SELECT count(*) FROM redrive.schedule_ticks WHERE outcome = 'fired'";
    wait_until("the tick", SOON, || scalar(&mut client, fired) == 1);
    lock.rollback().unwrap();
    stop(worker);
}

/// Ticks until the schedule is in the future, over a new connection after each kill. Waits while there are `limit` jobs.
fn tick_through_kills(test: &TestDatabase, limit: &AtomicI64) {
    'connected: loop {
        let mut client = test.client();
        let named = client.batch_execute("SET application_name = 'ticker'");
        if named.is_err() {
            continue;
        }
        loop {
            let due = client.query_opt(
                "SELECT s.version, s.next_at::timestamptz, (SELECT count(*) FROM redrive.jobs)
                 FROM redrive.schedules s WHERE s.next_at <= now()",
                &[],
            );
            let (version, due_at, jobs): (i64, SystemTime, i64) = match due {
                Ok(Some(row)) => (row.get(0), row.get(1), row.get(2)),
                Ok(None) => return,
                Err(_) => continue 'connected,
            };
            if jobs >= limit.load(Ordering::Relaxed) {
                thread::yield_now();
                continue;
            }
            let (run, next) = (vec![due_at], due_at + HOUR);
            let ticked = client.query_one(
                statement("tick_schedule"),
                &[
                    &"hourly",
                    &version,
                    &due_at,
                    &run,
                    &0_i64,
                    &None::<SystemTime>,
                    &next,
                ],
            );
            if ticked.is_err() {
                continue 'connected;
            }
        }
    }
}

/// How many ticks the test of random kills takes: `REDRIVE_TEST_TICKS`, or a few.
fn ticks() -> i64 {
    env::var("REDRIVE_TEST_TICKS").map_or(400, |ticks| ticks.parse().expect("a number of ticks"))
}

#[test]
fn random_kills_lose_no_tick_and_repeat_none() {
    let ticks = ticks();
    let (test, db) = TestDatabase::opened();
    let mut client = test.client();
    set(&db, &every("hourly", HOUR));
    let first = HOUR * u32::try_from(ticks - 1).unwrap() + HOUR / 2;
    due_since(&mut client, "hourly", first);
    let (_, first) = read(&mut client, "hourly");
    let jobs = "SELECT count(*) FROM redrive.jobs";
    let kill = "SELECT count(pg_terminate_backend(t.pid)) FROM (
                    SELECT a.pid FROM pg_stat_activity a
                    WHERE a.datname = current_database() AND a.application_name = 'ticker'
                    ORDER BY random() LIMIT 2) t";
    let limit = AtomicI64::new(8);
    let kills = thread::scope(|scope| {
        let tickers: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| tick_through_kills(&test, &limit)))
            .collect();
        let mut kills = 0;
        while tickers.iter().any(|ticker| !ticker.is_finished()) {
            let ticked = scalar(&mut client, jobs);
            if ticked + 3 >= limit.load(Ordering::Relaxed) {
                kills += scalar(&mut client, kill);
                limit.store(ticked + 8, Ordering::Relaxed);
            }
        }
        kills
    });
    assert!(kills > ticks / 20, "{kills} kills");
    assert_eq!(scalar(&mut client, jobs), ticks);
    // Every hour from the first tick has one job.
    let hours = "SELECT count(DISTINCT j.headers ->> 'redrive-scheduled-for')
                 FROM redrive.live_jobs j
                 JOIN generate_series($1::timestamptz, $1 + ($2::bigint - 1) * interval '1 hour', '1 hour') AS h (tick)
                     ON h.tick = (j.headers ->> 'redrive-scheduled-for')::timestamptz";
    let hours: i64 = client.ask(hours, &[&first, &ticks]);
    assert_eq!(hours, ticks);
    no_drift(&db);
}

#[test]
fn a_tick_that_was_planned_for_another_state_has_no_effect() {
    let (test, db) = TestDatabase::opened();
    let mut client = test.client();
    set(&db, &every("hourly", HOUR));
    let (version, future) = read(&mut client, "hourly");
    // By the database's clock it is not due. The clock of the process does not count.
    assert_eq!(tick(&mut client, "hourly", version, future), None);
    due_since(&mut client, "hourly", HOUR / 2);
    let (_, due_at) = read(&mut client, "hourly");
    assert_eq!(tick(&mut client, "hourly", version, due_at - HOUR), None);
    assert_eq!(tick(&mut client, "hourly", version + 1, due_at), None);
    assert_eq!(tick(&mut client, "daily", version, due_at), None);
    db.schedules().pause("hourly", &super::operator()).unwrap();
    assert_eq!(tick(&mut client, "hourly", version, due_at), None);
    db.schedules().resume("hourly", &super::operator()).unwrap();
    assert!(tick(&mut client, "hourly", version, due_at).is_some());
    assert_eq!(tick(&mut client, "hourly", version, due_at), None);
    assert_eq!(client.count("jobs"), 1);
}

#[test]
fn a_job_knows_its_tick_through_retry_death_and_redrive() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let mut client = test.client();
    let job = super::order().max_attempts(2).header("trace", "4bf9");
    set(db, &every("hourly", HOUR).job("orders", job));
    due_since(&mut client, "hourly", HOUR / 2);
    let (_, due_at) = read(&mut client, "hourly");
    let (seen, all) = mpsc::sync_channel(16);
    let worker = worker(&queue)
        .lease(std::time::Duration::from_secs(2))
        .handle(move |job: &Job<Order>| {
            let trace = job.headers().get("trace").cloned();
            let schedule = job.schedule().map(str::to_owned);
            seen.send((job.scheduled_for(), schedule, trace)).unwrap();
            match job.generation() {
                0 => Err(Failure::retry("again")),
                _ => Ok(()),
            }
        })
        .started();
    counted(&worker, "the job to die", |counts| counts.dead == 1);
    assert_eq!(db.redrives(&of_orders()).redriven.len(), 1);
    counted(&worker, "the redriven job", |counts| counts.done == 1);
    stop(worker);
    let expected = (
        Some(due_at),
        Some("hourly".to_owned()),
        Some("4bf9".to_owned()),
    );
    assert_eq!(
        all.try_iter().collect::<Vec<_>>(),
        [expected.clone(), expected.clone(), expected]
    );
    assert_eq!(outcomes(db, "hourly"), [(TickOutcome::Fired, 1)]);
}
