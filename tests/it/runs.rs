//! Redrive runs: frozen membership, canary and ramp, pause and cancel, drivers and their fence.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use redrive::{
    Act, Driven, Failure, Job, JobId, LetterState, Letters, Rate, RedriveOptions, RedriveRun,
    RunDriver, RunId, RunOptions, RunState, Skip, Step, Worker,
};
use redrive_tests::{
    Order, SOON, TestDatabase, drained, letters, letters_in, stop, wait_until, worker,
};

fn unthrottled() -> RunOptions {
    RunOptions::new().rate(Rate::Unthrottled)
}

/// One letter a second: a step sends one, and the next one none.
fn slowly() -> RunOptions {
    RunOptions::new().rate(Rate::PerSecond(NonZeroU32::MIN))
}

fn start(test: &TestDatabase, options: &RunOptions) -> RunDriver {
    let act = Act::new().person("maria@ops-1").why("fixed");
    let started = test.open().start_run(&Letters::all(), options, &act);
    started.unwrap().expect("letters").1
}

/// Drives until the run does not go on; answers how it ended, and the steps that sent something.
#[track_caller]
fn drive(driver: &mut RunDriver) -> (Driven, Vec<Step>) {
    let mut steps: Vec<Step> = Vec::new();
    let mut end = Driven::Running;
    wait_until("the run to end", SOON, || {
        let step = driver.step().expect("a step");
        end = step.driven;
        if steps.last().is_none_or(|last| last.tried < step.tried) {
            steps.push(step);
        }
        end != Driven::Running
    });
    (end, steps)
}

fn run(test: &TestDatabase, id: RunId) -> RedriveRun {
    test.open().run(id).unwrap().expect("the run")
}

/// How often each id is live.
fn live(test: &TestDatabase) -> BTreeMap<i64, usize> {
    let mut live = BTreeMap::new();
    let asked = "SELECT id FROM redrive.live_jobs";
    for row in test.client().query(asked, &[]).unwrap() {
        *live.entry(row.get(0)).or_default() += 1;
    }
    live
}

/// The sum of the redrives in the audit.
fn audited(test: &TestDatabase) -> i64 {
    let asked =
        "SELECT coalesce(sum(letters), 0)::bigint FROM redrive.audit WHERE verb = 'redrive'";
    test.client().query_one(asked, &[]).unwrap().get(0)
}

/// The numbers of a run are those of its members, counted one by one.
#[track_caller]
fn adds_up(test: &TestDatabase, id: RunId) {
    let asked = "SELECT count(*) FILTER (WHERE outcome = 'recovered'), \
                 count(*) FILTER (WHERE outcome = 'died_alike'), \
                 count(*) FILTER (WHERE outcome = 'died_differently'), \
                 count(*) FILTER (WHERE outcome LIKE 'skipped%'), count(*) \
                 FROM redrive.run_letters WHERE run_id = $1";
    let row = test.client().query_one(asked, &[&id.get()]).unwrap();
    let members: [i64; 5] = std::array::from_fn(|column| row.get(column));
    let run = run(test, id);
    let told = [
        run.recovered,
        run.died_alike,
        run.died_differently,
        run.skipped,
        run.total,
    ];
    assert_eq!(told.map(u64::cast_signed), members);
    assert_eq!(run.sent + run.skipped, run.tried);
    let judged = run.recovered + run.died_alike + run.died_differently;
    assert_eq!(run.still_running, run.sent - judged);
}

/// A worker whose handler succeeds once it is fixed.
fn fixable(test: &TestDatabase) -> (Worker, Arc<AtomicBool>) {
    let fixed = Arc::new(AtomicBool::new(false));
    let worker = worker(&test.queue("orders"))
        .handle({
            let fixed = Arc::clone(&fixed);
            move |_: &Job<Order>| match fixed.load(Ordering::SeqCst) {
                true => Ok(()),
                false => Err(Failure::reject("broken")),
            }
        })
        .start()
        .unwrap();
    (worker, fixed)
}

#[test]
fn the_membership_of_a_run_is_frozen() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let ids = letters(&queue, 6);
    let mut driver = start(&test, &unthrottled());
    // One more dies, one is discarded, and one is gone altogether.
    let late = queue.enqueue(&Order { number: 7 }).unwrap();
    let (worker, _) = fixable(&test);
    drained(&queue);
    stop(worker);
    let db = queue.database();
    let why = Act::new().why("a duplicate");
    db.discard(&Letters::ids([ids[1], ids[2]]), &why).unwrap();
    db.prune(Duration::ZERO).unwrap();
    db.discard(&Letters::ids([ids[3]]), &why).unwrap();

    assert_eq!(drive(&mut driver).0, Driven::Ended(RunState::Finished));
    let run = run(&test, driver.run());
    assert_eq!((run.total, run.tried, run.sent, run.skipped), (6, 6, 3, 3));
    assert_eq!(
        db.run_skips(run.id).unwrap(),
        [(Skip::Gone, 2), (Skip::NotOpen, 1)]
    );
    let went: Vec<i64> = [0, 4, 5].map(|place: usize| ids[place].get()).into();
    assert_eq!(live(&test).into_keys().collect::<Vec<_>>(), went);
    let letter = db.letter(late).unwrap().expect("a letter");
    assert_eq!(letter.state, LetterState::Open);
    assert_eq!(audited(&test), 3);
    adds_up(&test, run.id);
    assert!(
        db.start_run(&Letters::queue("x"), &slowly(), &why)
            .unwrap()
            .is_none()
    );
}

#[test]
fn a_canary_that_dies_again_halts_the_run_and_the_rest_stays_open() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    letters(&queue, 100);
    let (worker, fixed) = fixable(&test);
    let mut driver = start(&test, &unthrottled().canary(5));
    let (end, _) = drive(&mut driver);
    assert_eq!(end, Driven::Ended(RunState::Halted));
    drained(&queue);
    let halted = run(&test, driver.run());
    assert_eq!((halted.sent, halted.died_alike, halted.tried), (5, 5, 5));
    let why = halted.halted_because.expect("a sentence");
    assert!(
        why.ends_with("of the 5 letters of the canary died again"),
        "{why}"
    );
    assert_eq!(
        letters_in(queue.database(), "orders", LetterState::Open),
        100
    );
    adds_up(&test, halted.id);

    // Nobody takes it up by himself. When the handler is fixed, an operator does.
    let db = queue.database();
    assert!(db.drive_run(halted.id).unwrap().is_none());
    fixed.store(true, Ordering::SeqCst);
    let change = db
        .resume_run(halted.id, &Act::new())
        .unwrap()
        .expect("a run");
    assert_eq!(
        (change.was, change.became),
        (RunState::Halted, RunState::Running)
    );
    if let Some(mut driver) = db.drive_run(halted.id).unwrap() {
        drive(&mut driver);
    }
    wait_until("the run to finish", SOON, || {
        run(&test, halted.id).state == RunState::Finished
    });
    drained(&queue);
    wait_until("the outcomes", SOON, || {
        run(&test, halted.id).still_running == 0
    });
    stop(worker);
    let finished = run(&test, halted.id);
    assert_eq!(
        (finished.sent, finished.recovered, finished.died_alike),
        (100, 95, 5)
    );
    adds_up(&test, finished.id);
    assert_eq!(audited(&test), 100);
}

#[test]
fn a_canary_that_recovers_is_followed_by_a_ramp() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    letters(&queue, 100);
    let (worker, fixed) = fixable(&test);
    fixed.store(true, Ordering::SeqCst);
    let mut driver = start(&test, &unthrottled().canary(2));
    let (end, steps) = drive(&mut driver);
    assert_eq!(end, Driven::Ended(RunState::Finished));
    // Two, four times two, sixteen times two, and the rest.
    let mut stages: Vec<u64> = steps.iter().map(|step| step.tried).collect();
    stages.dedup();
    assert_eq!(stages[..3], [2, 10, 42], "{stages:?}");
    for (stage, before) in steps[1..3].iter().zip([2, 10]) {
        assert!(stage.recovered * 10 >= before * 9, "{steps:?}");
    }
    drained(&queue);
    wait_until("the outcomes", SOON, || {
        run(&test, driver.run()).still_running == 0
    });
    stop(worker);
    assert_eq!(run(&test, driver.run()).recovered, 100);
    adds_up(&test, driver.run());
}

#[test]
fn a_run_is_paused_resumed_and_cancelled_in_the_middle() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    letters(&queue, 20);
    let db = queue.database();
    let mut driver = start(&test, &slowly());
    let id = driver.run();
    assert_eq!(driver.step().unwrap().sent, 1);
    assert_eq!(
        driver.step().unwrap().sent,
        1,
        "by the rate, the next is not due"
    );
    let change = db.pause_run(id, &Act::new()).unwrap().expect("the run");
    assert_eq!(
        (change.was, change.became),
        (RunState::Running, RunState::Paused)
    );
    assert_eq!(
        driver.step().unwrap().driven,
        Driven::Ended(RunState::Paused)
    );
    assert!(db.drive_run(id).unwrap().is_none(), "it is paused");
    let again = db.pause_run(id, &Act::new()).unwrap().expect("the run");
    assert_eq!(again.was, again.became);

    db.resume_run(id, &Act::new()).unwrap();
    assert_eq!(
        driver.step().unwrap().driven,
        Driven::Lost,
        "its term is over"
    );
    let mut driver = db.drive_run(id).unwrap().expect("nobody drives it");
    assert_eq!(driver.step().unwrap().sent, 2);
    db.cancel_run(id, &Act::new().why("wrong filter")).unwrap();
    assert_eq!(
        driver.step().unwrap().driven,
        Driven::Ended(RunState::Cancelled)
    );
    let change = db.resume_run(id, &Act::new()).unwrap().expect("the run");
    assert_eq!(change.became, RunState::Cancelled, "that was the end");

    assert_eq!(live(&test).len(), 2);
    assert_eq!(letters_in(db, "orders", LetterState::Open), 18);
    assert_eq!(audited(&test), 2);
    let verbs =
        "SELECT string_agg(verb, ', ' ORDER BY id) FROM redrive.audit WHERE verb LIKE '%_run'";
    let row = test.client().query_one(verbs, &[]).unwrap();
    assert_eq!(
        row.get::<_, &str>(0),
        "create_run, pause_run, resume_run, cancel_run"
    );
    adds_up(&test, id);
    assert!(db.pause_run(RunId::new(99), &Act::new()).unwrap().is_none());
}

#[test]
fn a_driver_whose_time_is_over_moves_nothing() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    letters(&queue, 10);
    let db = queue.database();
    let mut first = start(&test, &slowly());
    first.step().unwrap();
    assert!(db.drive_run(first.run()).unwrap().is_none(), "it is driven");
    test.client()
        .execute(
            "UPDATE redrive.redrive_runs SET driver_expires_at = clock_timestamp() - interval '1 second', \
             next_at = clock_timestamp() - interval '1 minute'",
            &[],
        )
        .unwrap();
    let mut second = db
        .drive_run(first.run())
        .unwrap()
        .expect("nobody drives it");
    assert_eq!(first.step().unwrap().driven, Driven::Lost);
    assert_eq!(live(&test).len(), 1, "the late step moved nothing");
    assert_eq!(
        second.step().unwrap().sent,
        3,
        "a second of it is made up for"
    );
    assert_eq!(live(&test).len(), 3);
}

#[test]
fn workers_drive_a_run_that_nobody_drives() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    letters(&queue, 1200);
    let db = queue.database();
    let created = db
        .create_run(&Letters::all(), &unthrottled().canary(10), &Act::new())
        .unwrap()
        .expect("letters");
    assert_eq!((created.letters, created.unserved.len()), (1200, 1));
    let (first, fixed) = fixable(&test);
    fixed.store(true, Ordering::SeqCst);
    // Any worker does, also one of another queue.
    let second = worker(&test.queue("other"))
        .handle_any(|_| Ok(()))
        .start()
        .unwrap();
    wait_until("the run to finish", SOON, || {
        run(&test, created.id).state == RunState::Finished
    });
    drained(&queue);
    wait_until("the outcomes", SOON, || {
        run(&test, created.id).recovered == 1200
    });
    assert_eq!(stop(first).counts.done, 1200);
    stop(second);
    adds_up(&test, created.id);
    assert_eq!(audited(&test), 1200);
}

#[test]
fn outcomes_tell_dying_alike_from_dying_differently() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let ids = letters(&queue, 3);
    let edit = "UPDATE redrive.dead_letters SET payload = '{\"number\": \"x\"}' WHERE id = $1";
    test.client().execute(edit, &[&ids[0].get()]).unwrap();
    let mut driver = start(&test, &unthrottled());
    drive(&mut driver);
    let number = 2;
    let worker = worker(&queue)
        .handle(
            move |job: &Job<Order>| match job.payload().number == number {
                true => Ok(()),
                false => Err(Failure::reject("broken")),
            },
        )
        .start()
        .unwrap();
    drained(&queue);
    wait_until("the outcomes", SOON, || {
        run(&test, driver.run()).still_running == 0
    });
    stop(worker);
    let told = run(&test, driver.run());
    assert_eq!(
        (told.recovered, told.died_alike, told.died_differently),
        (1, 1, 1)
    );
    adds_up(&test, driver.run());
    // Sent back by hand, what becomes of them is no outcome of the run any more.
    queue
        .database()
        .redrive(&Letters::all(), &Act::new())
        .unwrap();
    assert_eq!(run(&test, driver.run()).died_alike, 1);
}

#[test]
fn a_letter_that_somebody_has_in_hand_is_tried_again() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let ids = letters(&queue, 5);
    let mut client = test.client();
    let mut edit = client.transaction().unwrap();
    let lock = "SELECT FROM redrive.dead_letters WHERE id = $1 FOR UPDATE";
    edit.query(lock, &[&ids[2].get()]).unwrap();
    let mut driver = start(&test, &unthrottled());
    assert_eq!(driver.step().unwrap().sent, 4);
    let told = run(&test, driver.run());
    assert_eq!((told.state, told.skipped), (RunState::Running, 1));
    edit.rollback().unwrap();
    assert_eq!(drive(&mut driver).0, Driven::Ended(RunState::Finished));
    let told = run(&test, driver.run());
    assert_eq!((told.sent, told.skipped), (5, 0));
    adds_up(&test, driver.run());
}

#[test]
fn a_letter_that_stays_locked_is_reported() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let ids = letters(&queue, 2);
    let mut client = test.client();
    let mut edit = client.transaction().unwrap();
    let lock = "SELECT FROM redrive.dead_letters WHERE id = $1 FOR UPDATE";
    edit.query(lock, &[&ids[0].get()]).unwrap();
    let mut driver = start(&test, &unthrottled());
    wait_until("the run to give up", SOON, || {
        let sooner = "UPDATE redrive.redrive_runs SET next_at = clock_timestamp()";
        test.client().execute(sooner, &[]).unwrap();
        driver.step().unwrap().driven == Driven::Ended(RunState::Finished)
    });
    let skips = queue.database().run_skips(driver.run()).unwrap();
    assert_eq!(skips, [(Skip::Locked, 1)]);
    adds_up(&test, driver.run());
}

#[test]
fn a_run_against_a_discard_and_a_prune_leaves_each_letter_one_end() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    letters(&queue, 3000);
    let mut driver = start(
        &test,
        &RunOptions::new().rate(Rate::PerSecond(NonZeroU32::MIN.saturating_add(9999))),
    );
    let over = Arc::new(AtomicBool::new(false));
    let discarder = thread::spawn({
        let db = test.open();
        move || {
            let newest = "not wanted";
            db.discard(
                &Letters::queue("orders").limit(1500),
                &Act::new().why(newest),
            )
            .unwrap()
        }
    });
    let pruner = thread::spawn({
        let (db, over) = (test.open(), Arc::clone(&over));
        move || {
            let mut pruned = 0;
            while !over.load(Ordering::SeqCst) {
                pruned += db.prune(Duration::ZERO).unwrap();
            }
            pruned + db.prune(Duration::ZERO).unwrap()
        }
    });
    let (end, _) = drive(&mut driver);
    let discarded = discarder.join().expect("the one who discards");
    over.store(true, Ordering::SeqCst);
    let pruned = pruner.join().expect("the one who prunes");
    assert_eq!(end, Driven::Ended(RunState::Finished));
    let run = run(&test, driver.run());
    assert_eq!(pruned, discarded.len() as u64, "only what was closed");
    assert_eq!(run.sent + discarded.len() as u64, 3000);
    assert_eq!(run.skipped, discarded.len() as u64);
    let live = live(&test);
    assert_eq!(live.len() as u64, run.sent);
    assert!(live.values().all(|jobs| *jobs == 1));
    assert!(
        discarded
            .iter()
            .all(|id: &JobId| !live.contains_key(&id.get()))
    );
    adds_up(&test, driver.run());
}

#[test]
fn a_run_forces_quarantined_letters_only_when_told() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    letters(&queue, 2);
    let quarantine = "UPDATE redrive.dead_letters SET state = 'quarantined', alike = 3";
    test.client().execute(quarantine, &[]).unwrap();
    let db = queue.database();
    let act = Act::new().why("the supplier says it works");
    assert!(
        db.start_run(&Letters::all(), &unthrottled(), &act)
            .unwrap()
            .is_none()
    );
    let force = unthrottled().letters(RedriveOptions::new().force());
    let refused = db.start_run(&Letters::all(), &force, &Act::new());
    assert!(refused.expect_err("no reason").is_invalid());
    let (created, mut driver) = db
        .start_run(&Letters::all(), &force, &act)
        .unwrap()
        .expect("two");
    drive(&mut driver);
    let told = run(&test, created.id);
    assert_eq!((told.sent, told.skipped), (2, 0));
}
