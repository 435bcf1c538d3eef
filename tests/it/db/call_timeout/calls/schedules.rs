//! The calls on schedules.

use std::time::Duration;

use redrive::NewJob;
use redrive::schedule::Schedule;

use super::{Call, operator, usual};

fn hourly() -> Schedule {
    let job = NewJob::raw("order", "{}").expect("a job");
    Schedule::every("hourly", Duration::from_hours(1))
        .expect("an interval")
        .job("orders", job)
}

pub(super) const CALLS: &[Call] = &[
    usual("Schedules::set", |scene| {
        scene.db.schedules().set(&hourly(), &operator()).map(drop)
    }),
    usual("Schedules::sync", |scene| {
        scene
            .db
            .schedules()
            .sync(&[hourly()], &operator())
            .map(drop)
    }),
    usual("Schedules::preview", |scene| {
        scene.db.schedules().preview(&hourly(), 5).map(drop)
    }),
    usual("Schedules::list", |scene| {
        scene.db.schedules().list().map(drop)
    }),
    usual("Schedules::get", |scene| {
        scene.db.schedules().get("hourly").map(drop)
    }),
    usual("Schedules::history", |scene| {
        scene.db.schedules().history("hourly", 5).map(drop)
    }),
    usual("Schedules::pause", |scene| {
        scene.db.schedules().pause("hourly", &operator()).map(drop)
    }),
    usual("Schedules::resume", |scene| {
        scene.db.schedules().resume("hourly", &operator()).map(drop)
    }),
    usual("Schedules::trigger", |scene| {
        scene.db.schedules().trigger("none", &operator()).map(drop)
    }),
    usual("Schedules::remove", |scene| {
        scene.db.schedules().remove("none", &operator()).map(drop)
    }),
];
