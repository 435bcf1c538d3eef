//! Redrive runs: frozen membership, canary and ramp, pause and cancel, drivers and their fence.

mod approval;
mod canary;
mod chunks;
mod command;
mod halt;
mod letters;
mod lifecycle;
mod live_jobs;
mod paced;

use redrive_tests::prelude::*;

use super::bury;

fn unthrottled() -> RunOptions {
    RunOptions::new().unthrottled()
}

fn start(test: &TestDatabase, options: &RunOptions) -> RunDriver {
    let db = test.open();
    let runs = db.dlq().runs();
    let started = runs.start(&LetterFilter::new(), options, &maria());
    started.unwrap().expect("letters").1
}

/// Takes over a run without a driver.
#[track_caller]
fn driver(test: &TestDatabase, id: RunId) -> RunDriver {
    let driver = test.open().dlq().runs().drive(id).unwrap();
    driver.expect("it has no driver")
}

/// Changes a run.
#[track_caller]
fn change(test: &TestDatabase, action: RunAction, id: RunId) -> RunChange {
    let db = test.open();
    let changed = db.dlq().runs().change(id, action, &maria());
    changed.unwrap().expect("a run")
}

/// Ends the lease of the driver of every run.
fn expire(test: &TestDatabase) {
    test.sql("UPDATE redrive.redrive_runs SET driver_expires_at = clock_timestamp() - interval '1 second'");
}

/// One letter per second: one step sends a letter, the next none.
fn slowly() -> RunOptions {
    RunOptions::new().rate(1)
}

/// Says when the next letter of every run is due, in seconds from now, so that the speed of the machine does not decide
/// how many are. A step makes up for one second.
fn next_due(test: &TestDatabase, seconds: f64) {
    let due =
        "UPDATE redrive.redrive_runs SET next_at = clock_timestamp() + $1 * interval '1 second'";
    test.client().change(due, &[&seconds]);
}

const LONG_AGO: f64 = -3600.0;

/// Removes the limit of the rate of every run.
fn hurry(test: &TestDatabase) {
    let faster = "UPDATE redrive.redrive_runs SET rate = NULL";
    test.sql(faster);
}

/// Waits until every letter that a run sent has an outcome.
#[track_caller]
fn judged(test: &TestDatabase, id: RunId) {
    wait_until("the outcomes", SOON, || run(test, id).still_running == 0);
}

/// Drives the run until it stops, and returns its status.
#[track_caller]
fn drive(driver: &mut RunDriver) -> DriveStatus {
    let mut status = DriveStatus::Lost;
    wait_until("the run to end", SOON, || {
        status = driver.step().expect("a step");
        !matches!(status, DriveStatus::Running(_))
    });
    status
}

/// Makes a step after which the run goes on, and returns how many letters it has sent.
#[track_caller]
fn sends(test: &TestDatabase, driver: &mut RunDriver) -> u64 {
    let status = driver.step().expect("a step");
    assert!(matches!(status, DriveStatus::Running(_)), "{status:?}");
    run(test, driver.run()).sent
}

fn run(test: &TestDatabase, id: RunId) -> RedriveRun {
    test.open().dlq().runs().get(id).unwrap().expect("the run")
}

/// Returns how often each id is live.
pub(super) fn live(test: &TestDatabase) -> BTreeMap<i64, usize> {
    let mut live = BTreeMap::new();
    let asked = "SELECT id FROM redrive.live_jobs";
    for id in test.client().column(asked, &[]) {
        *live.entry(id).or_default() += 1;
    }
    live
}

/// Returns the sum of the redrives in the audit.
fn audited(test: &TestDatabase) -> i64 {
    let asked =
        "SELECT coalesce(sum(letters), 0)::bigint FROM redrive.audit WHERE verb = 'redrive'";
    test.client().ask(asked, &[])
}

/// Checks that each letter is one job, in the tables and the audit.
#[track_caller]
fn all_are_live_once(test: &TestDatabase, letters: i64) {
    let asked = "SELECT count(*), count(DISTINCT id), \
                 (SELECT sum(letters)::bigint FROM redrive.audit WHERE verb = 'redrive') \
                 FROM redrive.live_jobs";
    let counts: (i64, i64, i64) = test.client().row(asked, &[]);
    assert_eq!(counts, (letters, letters, letters));
}

/// Checks the counts of a run against its members.
#[track_caller]
fn adds_up(test: &TestDatabase, id: RunId) {
    let asked = "SELECT count(*) FILTER (WHERE outcome = 'recovered'), \
                 count(*) FILTER (WHERE outcome = 'died_alike'), \
                 count(*) FILTER (WHERE outcome = 'died_differently'), \
                 count(*) FILTER (WHERE outcome LIKE 'skipped%'), count(*) \
                 FROM redrive.run_letters WHERE run_id = $1";
    let row = test.client().query_one(asked, &[&id.get()]).unwrap();
    let members: [i64; 5] = std::array::from_fn(|column| row.get(column));
    let members = members.map(i64::unsigned_abs);
    let run = run(test, id);
    let died = [run.died_alike, run.died_differently];
    let counters = [run.recovered, died[0], died[1], run.skipped, run.total];
    assert_eq!(counters, members);
    assert_eq!(run.sent + run.skipped, run.tried);
    let judged = run.recovered + run.died_alike + run.died_differently;
    assert_eq!(run.still_running, run.sent - judged);
}

/// A worker whose handler fails until it is fixed.
fn fixable(test: &TestDatabase) -> (Worker, &'static AtomicBool) {
    fixable_with(&test.queue("orders"), || Failure::reject("broken"))
}

pub(super) fn fixable_with(
    queue: &Queue,
    failure: fn() -> Failure,
) -> (Worker, &'static AtomicBool) {
    let fixed = kept::<AtomicBool>();
    let worker = worker(queue).runs(move |_: &Job<Order>| match fixed.load(Ordering::SeqCst) {
        true => Ok(()),
        false => Err(failure()),
    });
    (worker, fixed)
}
