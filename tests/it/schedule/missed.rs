//! Missed ticks, after downtime and after a pause.

use redrive_tests::prelude::*;

use super::{due_since, every, history, outcomes, read, set, status, ticking};

#[test]
fn three_days_of_downtime_follow_the_policy() {
    use TickOutcome::{Fired, Missed as Lost};
    let (_test, queue, mut client) = TestDatabase::with_session();
    let db = queue.database();
    let daily = |name, missed| every(name, DAY).missed(missed);
    set(db, &daily("skip", Missed::Skip));
    set(db, &daily("once", Missed::Once));
    set(db, &daily("all", Missed::All));
    let names = ["skip", "once", "all"];
    let mut first = vec![];
    for name in names {
        due_since(&mut client, name, DAY * 3 + HOUR);
        first.push(read(&mut client, name).1);
    }
    let worker = ticking(&queue);
    let is_over = |name: &&str| status(db, name).next_at.unwrap() > SystemTime::now();
    wait_until("the ticks", SOON, || names.iter().all(is_over));
    stop(worker);
    assert_eq!(outcomes(db, "skip"), [(Lost, 4)]);
    assert_eq!(outcomes(db, "once"), [(Lost, 3), (Fired, 1)]);
    assert_eq!(outcomes(db, "all"), [(Fired, 1); 4]);
    for (name, first) in names.iter().zip(first) {
        let after = status(db, name);
        // The rhythm stays: four days after the first missed tick.
        assert_eq!(after.next_at, Some(first + DAY * 4), "{name}");
        assert_eq!(after.last_at, Some(first + DAY * 3), "{name}");
    }
    let (_, next) = read(&mut client, "all");
    let ticks = history(db, "all").into_iter().map(|entry| entry.tick_at);
    assert!(ticks.eq([1, 2, 3, 4].map(|days| next - DAY * days)));
    let counts = published(&mut client);
    for (outcome, ticks) in [("fired", 5), ("missed", 7)] {
        let counted = counts.iter().filter(|(name, _)| {
            name.starts_with("redrive_schedule_ticks_total{") && name.contains(outcome)
        });
        let counted: i64 = counted.map(|(_, ticks)| ticks).sum();
        assert_eq!(counted, ticks, "{outcome}: {counts:?}");
    }
}

#[test]
fn a_pause_keeps_the_next_tick_and_its_ticks_are_missed_ones() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    let db = queue.database();
    let operator = Operator::new("maria").reason("stocktaking");
    set(db, &every("paused", DAY));
    set(db, &every("other", DAY));
    assert!(db.schedules().pause("paused", &operator).unwrap());
    assert!(!db.schedules().pause("unknown", &operator).unwrap());
    for name in ["paused", "other"] {
        due_since(&mut client, name, DAY * 2 + HOUR);
    }
    let (_, kept) = read(&mut client, "paused");
    let worker = ticking(&queue);
    wait_until("the other schedule to tick", SOON, || {
        !history(db, "other").is_empty()
    });
    assert!(history(db, "paused").is_empty());
    let paused = status(db, "paused");
    assert_eq!(paused.next_at, Some(kept));
    assert!(paused.paused_at.is_some());
    // A second pause keeps the time of the first.
    assert!(db.schedules().pause("paused", &operator).unwrap());
    assert_eq!(status(db, "paused").paused_at, paused.paused_at);
    assert!(db.schedules().resume("paused", &operator).unwrap());
    wait_until("the paused schedule to tick", SOON, || {
        history(db, "paused").len() == 2
    });
    let expected = [(TickOutcome::Missed, 2), (TickOutcome::Fired, 1)];
    assert_eq!(outcomes(db, "paused"), expected);
    assert_eq!(status(db, "paused").paused_at, None);
    stop(worker);
    let recorded = "SELECT count(*) FROM redrive.audit WHERE verb IN ('pause_schedule', 'resume_schedule')
                    AND person = 'maria' AND reason = 'stocktaking' AND about ->> 'schedule' = 'paused'";
    assert_eq!(scalar(&mut client, recorded), 3);
}
