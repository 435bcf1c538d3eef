//! Schedules: each tick runs once, missed ticks follow the policy, and operators are recorded.

mod changes;
mod missed;
mod overlap;
mod policies;
mod set;
mod sql;
mod ticks;

use redrive_tests::prelude::*;

/// Returns a schedule of orders.
fn every(name: &str, interval: Duration) -> Schedule {
    let every = Schedule::every(name, interval).unwrap();
    every.job("orders", new_order(1))
}

fn set(db: &Database, schedule: &Schedule) {
    db.schedules().set(schedule, &maria()).unwrap();
}

fn status(db: &Database, name: &str) -> ScheduleStatus {
    db.schedules().get(name).unwrap().expect("the schedule")
}

fn history(db: &Database, name: &str) -> Vec<ScheduleTick> {
    db.schedules().history(name, 100).unwrap()
}

/// Returns the outcomes of the ticks with their numbers, oldest first.
fn outcomes(db: &Database, name: &str) -> Vec<(TickOutcome, u64)> {
    let entries = history(db, name).into_iter().rev();
    let outcomes = entries.map(|entry| (entry.outcome, entry.ticks));
    outcomes.collect()
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
    lively(queue).runs(|_: &Job<Order>| Ok(()))
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
    let (due, none, next) = (vec![due_at], None::<SystemTime>, due_at + HOUR);
    let values: [&(dyn ToSql + Sync); 7] = [&name, &version, &due_at, &due, &0_i64, &none, &next];
    let ticked = client.query_one(statement("tick_schedule"), &values);
    ticked.unwrap()
}

/// Returns the version of a schedule and its next tick.
fn read(client: &mut Client, name: &str) -> (i64, SystemTime) {
    let read = "SELECT version, next_at::timestamptz FROM redrive.schedules WHERE name = $1";
    client.row(read, &[&name])
}
