//! Schedules: each tick runs once, missed ticks follow the policy, and operators are recorded.

mod changes;
mod missed;
mod overlap;
mod policies;
mod set;
mod sql;
mod ticks;

use redrive_tests::prelude::*;

const HOUR: Duration = Duration::from_hours(1);
const DAY: Duration = Duration::from_hours(24);

fn operator() -> Operator {
    Operator::new("maria").reason("a test")
}

fn order() -> NewJob {
    new_order(1)
}

/// Returns a schedule of orders.
fn every(name: &str, interval: Duration) -> Schedule {
    Schedule::every(name, interval)
        .unwrap()
        .job("orders", order())
}

fn set(db: &Database, schedule: &Schedule) {
    db.schedules().set(schedule, &operator()).unwrap();
}

fn status(db: &Database, name: &str) -> ScheduleStatus {
    db.schedules().get(name).unwrap().expect("the schedule")
}

fn history(db: &Database, name: &str) -> Vec<ScheduleTick> {
    db.schedules().history(name, 100).unwrap()
}

/// Returns the outcomes of the ticks with their numbers, oldest first.
fn outcomes(db: &Database, name: &str) -> Vec<(TickOutcome, u64)> {
    let entries = history(db, name);
    entries
        .iter()
        .rev()
        .map(|entry| (entry.outcome, entry.ticks))
        .collect()
}

/// Ages a schedule, so that its next tick was due some time ago.
fn due_since(client: &mut impl GenericClient, name: &str, ago: Duration) {
    let ms = i64::try_from(ago.as_millis()).unwrap();
    client.change("UPDATE redrive.schedules
             SET next_at = date_trunc('milliseconds', clock_timestamp()) - $2::bigint * interval '1 millisecond'
             WHERE name = $1", &[&name, &ms]);
}

/// Starts a worker that looks for due schedules often.
fn ticking(queue: &Queue) -> Worker {
    worker(queue)
        .lease(Duration::from_secs(2))
        .runs(|_: &Job<Order>| Ok(()))
}

/// Runs the tick of an interval of an hour, as a process does that has read the schedule.
fn tick(
    client: &mut impl GenericClient,
    name: &str,
    version: i64,
    due_at: SystemTime,
) -> Option<Vec<i64>> {
    try_tick(client, name, version, due_at).get("jobs")
}

fn try_tick(
    client: &mut impl GenericClient,
    name: &str,
    version: i64,
    due_at: SystemTime,
) -> postgres::Row {
    let next = due_at + HOUR;
    client
        .query_one(
            statement("tick_schedule"),
            &[
                &name,
                &version,
                &due_at,
                &vec![due_at],
                &0_i64,
                &None::<SystemTime>,
                &next,
            ],
        )
        .unwrap()
}

/// Returns the version of a schedule and its next tick.
fn read(client: &mut Client, name: &str) -> (i64, SystemTime) {
    client.row(
        "SELECT version, next_at::timestamptz FROM redrive.schedules WHERE name = $1",
        &[&name],
    )
}
