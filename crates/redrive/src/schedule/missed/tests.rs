//! Tests of the policies for missed ticks.

use super::*;
use crate::schedule::cron::CronLine;
use crate::schedule::zone::Zone;

fn at(text: &str) -> Timestamp {
    text.parse().expect(text)
}

fn cron(line: &str) -> Rhythm {
    Rhythm::Cron {
        line: CronLine::parse(line).expect(line),
        zone: Zone::utc(),
    }
}

fn every(seconds: u64) -> Rhythm {
    Rhythm::every(Duration::from_secs(seconds)).expect("an interval")
}

fn policy(missed: Missed) -> MissedPolicy {
    MissedPolicy {
        missed,
        ticks: DEFAULT_MISSED_TICKS,
        age: DEFAULT_MISSED_AGE,
    }
}

/// Returns the ticks that run, how many are missed, the latest of these and the next tick, as text.
fn planned(rhythm: &Rhythm, policy: MissedPolicy, due: &str, now: &str) -> String {
    let plan = plan(rhythm, policy, at(due), at(now)).expect("a plan");
    let short = |tick: &Timestamp| tick.strftime("%dT%H:%M:%S").to_string();
    let run: Vec<String> = plan.run.iter().map(short).collect();
    format!(
        "run [{}] missed {} {} next {}",
        run.join(" "),
        plan.missed,
        plan.missed_at
            .as_ref()
            .map_or_else(|| "-".to_owned(), short),
        short(&plan.next),
    )
}

#[test]
fn a_tick_on_time_runs_with_every_policy() {
    for missed in Missed::ALL {
        for (rhythm, now) in [
            (cron("0 8 * * *"), "2026-01-05T08:00:00Z"),
            (cron("0 8 * * *"), "2026-01-05T08:01:00Z"),
            (every(86_400), "2026-01-05T08:00:59Z"),
        ] {
            let plan = planned(&rhythm, policy(missed), "2026-01-05T08:00:00Z", now);
            assert_eq!(
                plan, "run [05T08:00:00] missed 0 - next 06T08:00:00",
                "{missed}"
            );
        }
    }
}

#[test]
fn three_days_of_downtime_follow_the_policy() {
    let hours = Duration::from_hours;
    let all = DEFAULT_MISSED_TICKS;
    for rhythm in [cron("0 8 * * *"), every(86_400)] {
        for (missed, ticks, age, expected) in [
            (Missed::Skip, all, hours(168), "run [] missed 4 08"),
            (Missed::Once, all, hours(168), "run [08] missed 3 07"),
            (Missed::All, all, hours(168), "run [05 06 07 08] missed 0 -"),
            (Missed::All, 2, hours(168), "run [07 08] missed 2 06"),
            (Missed::All, all, hours(25), "run [07 08] missed 2 06"),
            // The latest always runs.
            (Missed::All, all, MISSED_AFTER, "run [08] missed 3 07"),
        ] {
            let policy = MissedPolicy { missed, ticks, age };
            let (due, now) = ("2026-01-05T08:00:00Z", "2026-01-08T08:30:00Z");
            let plan = planned(&rhythm, policy, due, now).replace("T08:00:00", "");
            assert_eq!(plan, format!("{expected} next 09"), "{rhythm:?} {policy:?}");
        }
    }
}

#[test]
fn the_latest_tick_runs_on_time_after_missed_ones() {
    // Each second is due; only the last is on time.
    for rhythm in [cron("* * * * * *"), every(1)] {
        for missed in [Missed::Skip, Missed::Once] {
            let plan = planned(
                &rhythm,
                policy(missed),
                "2026-01-05T08:00:00Z",
                "2026-01-05T08:00:30.5Z",
            );
            assert_eq!(
                plan,
                "run [05T08:00:30] missed 30 05T08:00:29 next 05T08:00:31"
            );
        }
    }
}

#[test]
fn years_of_downtime_are_planned_without_counting_every_tick() {
    let bounds = MissedPolicy {
        ticks: 3,
        ..policy(Missed::All)
    };
    let plan = planned(
        &cron("* * * * * *"),
        bounds,
        "2020-01-01T00:00:00Z",
        "2026-01-05T08:00:00Z",
    );
    assert!(
        plan.starts_with("run [05T07:59:58 05T07:59:59 05T08:00:00] missed "),
        "{plan}"
    );
    assert!(plan.ends_with(" 05T07:59:57 next 05T08:00:01"), "{plan}");
    let plan = planned(
        &every(1),
        bounds,
        "2020-01-01T00:00:00Z",
        "2020-01-02T00:00:00Z",
    );
    assert_eq!(
        plan,
        "run [01T23:59:58 01T23:59:59 02T00:00:00] missed 86398 01T23:59:57 next 02T00:00:01"
    );
    // A line with many ticks long ago and none since.
    let plan = planned(
        &cron("* * * 1 JAN *"),
        bounds,
        "2026-01-01T00:00:00Z",
        "2026-12-05T08:00:00Z",
    );
    assert!(
        plan.starts_with("run [01T23:59:59] missed "),
        "the others are too old: {plan}"
    );
}

#[test]
fn just_more_ticks_than_are_counted_lose_none_of_the_newest() {
    let bounds = MissedPolicy {
        ticks: 100,
        ..policy(Missed::All)
    };
    // 10,005 seconds.
    let plan = plan(
        &cron("* * * * * *"),
        bounds,
        at("2026-01-05T00:00:00Z"),
        at("2026-01-05T02:46:44Z"),
    )
    .expect("a plan");
    assert_eq!(plan.run.len(), 100);
    assert_eq!(plan.run.first(), Some(&at("2026-01-05T02:45:05Z")));
    assert!(plan.missed >= 9900, "{}", plan.missed);
}
