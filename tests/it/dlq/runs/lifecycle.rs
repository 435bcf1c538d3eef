//! The states and drivers of a run.

use redrive_tests::prelude::*;

use super::{
    LONG_AGO, adds_up, audited, bury, change, drive, expire, fixable, live, next_due, run, sends,
    slowly, start, unthrottled,
};

#[test]
fn the_membership_of_a_run_is_frozen() {
    let (test, queue, ids) = TestDatabase::with_letters(7);
    let mut driver = start(&test, &unthrottled());
    // One more dies, two are deleted, one is discarded, and one is quarantined.
    let late = queue.enqueue(&Order { number: 8 }).unwrap();
    let (worker, _) = fixable(&test);
    finish(&queue, worker);
    let db = queue.database();
    db.discards(&LetterFilter::new().ids([ids[1], ids[2]]));
    db.prunes(Duration::ZERO);
    db.discards(&only(ids[3]));
    let quarantine =
        "UPDATE redrive.dead_letters SET state = 'quarantined', alike = 3 WHERE id = $1";
    test.client().change(quarantine, &[&ids[6].get()]);

    assert_eq!(drive(&mut driver), DriveStatus::Ended(RunState::Finished));
    let run = run(&test, driver.run());
    assert_eq!((run.total, run.tried, run.sent, run.skipped), (7, 7, 3, 4));
    let skips = db.dlq().runs().skips(run.id).unwrap();
    let one = |skip| (skip, 1);
    let others = [Skip::NotOpen, Skip::Quarantined].map(one);
    assert_eq!(skips, [&[(Skip::Gone, 2)][..], &others].concat());
    let went: Vec<i64> = [0, 4, 5].map(|place: usize| ids[place].get()).into();
    assert_eq!(live(&test).into_keys().collect::<Vec<_>>(), went);
    let letter = db.letter(late);
    assert_eq!(letter.state, LetterState::Open);
    assert_eq!(audited(&test), 3);
    adds_up(&test, run.id);
    let none = LetterFilter::new().queue("x");
    let started = db.dlq().runs().start(&none, &slowly(), &maria());
    assert!(started.unwrap().is_none());
}

#[test]
fn a_run_can_be_paused_resumed_and_cancelled_midway() {
    let (test, queue, _) = TestDatabase::with_letters(20);
    let db = queue.database();
    let mut driver = start(&test, &slowly());
    let id = driver.run();
    next_due(&test, LONG_AGO);
    assert_eq!(sends(&test, &mut driver), 2, "a second is made up for");
    next_due(&test, 3600.0);
    let sent = sends(&test, &mut driver);
    assert_eq!(sent, 2, "by the rate, the next is not due");
    let soon = "redrive_runs WHERE next_at <= clock_timestamp() + interval '1 second'";
    let soon = test.client().count(soon);
    assert_eq!(soon, 1, "a clock that was set back delays no run");
    let paused = change(&test, RunAction::Pause, id);
    let states = (RunState::Running, RunState::Paused);
    assert_eq!((paused.was, paused.became), states);
    let status = driver.step().unwrap();
    assert_eq!(status, DriveStatus::Ended(RunState::Paused));
    let runs = db.dlq().runs();
    assert!(runs.drive(id).unwrap().is_none(), "it is paused");
    let again = change(&test, RunAction::Pause, id);
    assert_eq!(again.was, again.became);

    change(&test, RunAction::Resume, id);
    let status = driver.step().unwrap();
    assert_eq!(status, DriveStatus::Lost, "it has lost the run");
    let mut driver = super::driver(&test, id);
    next_due(&test, LONG_AGO);
    assert_eq!(sends(&test, &mut driver), 4);
    change(&test, RunAction::Cancel, id);
    let status = driver.step().unwrap();
    assert_eq!(status, DriveStatus::Ended(RunState::Cancelled));
    let resumed = change(&test, RunAction::Resume, id);
    assert_eq!(resumed.became, RunState::Cancelled, "that was the end");

    assert_eq!(live(&test).len(), 4);
    assert_eq!(letters_in(db, "orders", LetterState::Open), 16);
    assert_eq!(audited(&test), 4);
    let verbs =
        "SELECT string_agg(verb, ', ' ORDER BY id) FROM redrive.audit WHERE verb LIKE '%_run'";
    let verbs: String = test.client().ask(verbs, &[]);
    assert_eq!(verbs, "create_run, pause_run, resume_run, cancel_run");
    adds_up(&test, id);
    assert!(
        runs.change(RunId::new(99), RunAction::Pause, &maria())
            .unwrap()
            .is_none()
    );
}

#[test]
fn a_step_that_sends_letters_or_finds_outcomes_is_progress() {
    let (test, queue, _) = TestDatabase::with_letters(10);
    let mut driver = start(&test, &slowly());
    let mut client = test.client();
    let mut makes_progress = |due| -> bool {
        client.sql("UPDATE redrive.redrive_runs SET progress_at = '2000-01-01'");
        next_due(&test, due);
        driver.step().unwrap();
        let asked = "SELECT progress_at > '2000-01-01' FROM redrive.redrive_runs";
        client.ask(asked, &[])
    };
    assert!(makes_progress(LONG_AGO), "it sent letters");
    assert!(!makes_progress(3600.0), "none was due");
    work_off(&queue, |_: &Job<Order>| Ok(()));
    assert!(makes_progress(3600.0), "they recovered");
    assert!(!makes_progress(3600.0));
}

#[test]
fn a_driver_whose_lease_expired_sends_no_letter() {
    let (test, queue, _) = TestDatabase::with_letters(10);
    let mut first = start(&test, &slowly());
    next_due(&test, LONG_AGO);
    assert_eq!(sends(&test, &mut first), 2);
    let driven = queue.database().dlq().runs().drive(first.run());
    assert!(driven.unwrap().is_none(), "it is driven");
    expire(&test);
    next_due(&test, LONG_AGO);
    let mut second = super::driver(&test, first.run());
    assert_eq!(first.step().unwrap(), DriveStatus::Lost);
    assert_eq!(live(&test).len(), 2, "the late step moved nothing");
    let sent = sends(&test, &mut second);
    assert_eq!(sent, 4, "a second of it is made up for");
    assert_eq!(live(&test).len(), 4);
}

#[test]
fn workers_drive_a_run_without_a_driver() {
    let (test, queue, _) = TestDatabase::with_letters(1200);
    let options = unthrottled().canary(10);
    let runs = queue.database().dlq().runs();
    let created = runs.create(&LetterFilter::new(), &options, &maria());
    let created = created.unwrap().expect("letters");
    assert_eq!(created.letters, 1200);
    let (first, fixed) = fixable(&test);
    fixed.store(true, Ordering::SeqCst);
    // Any worker drives it, also one of another queue.
    let second = worker(&test.queue("other")).handle_any(|_| Ok(()));
    let second = second.started();
    wait_until("the run to finish", SOON, || {
        run(&test, created.id).state == RunState::Finished
    });
    drained(&queue);
    wait_until("the outcomes", SOON, || {
        run(&test, created.id).recovered == 1200
    });
    assert_eq!(stop(first).stats.done, 1200);
    stop(second);
    adds_up(&test, created.id);
    assert_eq!(audited(&test), 1200);
}

#[test]
fn a_worker_that_takes_a_run_again_has_lost_it_before() {
    let (test, queue, _) = TestDatabase::with_letters(20);
    let runs = queue.database().dlq().runs();
    let created = runs.create(&LetterFilter::new(), &slowly(), &maria());
    created.unwrap().expect("letters");
    let worker = lively(&test.queue("other")).handle_any(|_| Ok(()));
    let worker = worker.started();
    let mut client = test.client();
    let mut driver = || -> Uuid {
        client.reaches("redrive_runs WHERE driver IS NOT NULL", 1);
        client.ask("SELECT driver FROM redrive.redrive_runs", &[])
    };
    let before = driver();
    // Its lease ended, and the worker finds the run before its own next step.
    test.sql("UPDATE redrive.redrive_runs SET driver = NULL");
    assert_ne!(driver(), before);
    stop(worker);
}

#[test]
fn runs_that_wait_keep_no_other_run_from_a_worker() {
    let (test, queue) = TestDatabase::with_orders();
    bury(&test, 20);
    let ids = queue.listed_ids(&LetterFilter::new());
    let runs = queue.database().dlq().runs();
    let create = |ids: &[JobId], options| {
        let these = LetterFilter::new().ids(ids.to_vec());
        let created = runs.create(&these, &options, &maria());
        created.unwrap().expect("letters").id
    };
    // No worker runs the jobs of these canaries, and they are more than one worker drives at a time.
    let twos = ids[..18].chunks(2);
    let waiting = twos.map(|two| create(two, unthrottled().canary(1)));
    let waiting: Vec<RunId> = waiting.collect();
    let other = create(&ids[18..], unthrottled());
    let worker = lively(&test.queue("other")).handle_any(|_| Ok(()));
    let worker = worker.started();
    wait_until("the run to finish", SOON, || {
        run(&test, other).state == RunState::Finished
    });
    let has_begun = |id: &RunId| run(&test, *id).started_at.is_some();
    wait_until("each of the others to be driven", SOON, || {
        waiting.iter().all(has_begun)
    });
    stop(worker);
    assert_eq!(run(&test, other).sent, 2);
    let is_running = |id: &RunId| run(&test, *id).state == RunState::Running;
    assert!(waiting.iter().all(is_running));
}
