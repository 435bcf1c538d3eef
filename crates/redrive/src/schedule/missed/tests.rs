//! Tests of the policies for missed ticks.

use jiff::tz::TimeZone;

use super::*;
use crate::schedule::cron::CronLine;

fn at(text: &str) -> Timestamp {
    text.parse().expect(text)
}

fn cron(line: &str) -> Rhythm {
    Rhythm::Cron {
        line: CronLine::parse(line).expect(line),
        zone: TimeZone::UTC,
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
    let [due, now] = [due, now].map(|time| at(&format!("{time}Z")));
    let plan = plan(rhythm, policy, due, now).expect("a plan");
    let short = |tick: &Timestamp| tick.strftime("%dT%H:%M:%S").to_string();
    let run: Vec<String> = plan.run.iter().map(short).collect();
    let (run, next) = (run.join(" "), short(&plan.next));
    let missed_at = plan.missed_at.as_ref().map(short);
    let missed_at = missed_at.as_deref().unwrap_or("-");
    format!("run [{run}] missed {} {missed_at} next {next}", plan.missed)
}

#[test]
fn a_tick_on_time_runs_with_every_policy() {
    for missed in Missed::ALL {
        for (rhythm, now) in [
            (cron("0 8 * * *"), "2026-01-05T08:00:00"),
            (cron("0 8 * * *"), "2026-01-05T08:01:00"),
            (every(86_400), "2026-01-05T08:00:59"),
        ] {
            let plan = planned(&rhythm, policy(missed), "2026-01-05T08:00:00", now);
            let expected = "run [05T08:00:00] missed 0 - next 06T08:00:00";
            assert_eq!(plan, expected, "{missed}");
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
            let (due, now) = ("2026-01-05T08:00:00", "2026-01-08T08:30:00");
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
            let (due, now) = ("2026-01-05T08:00:00", "2026-01-05T08:00:30.5");
            let plan = planned(&rhythm, policy(missed), due, now);
            let expected = "run [05T08:00:30] missed 30 05T08:00:29 next 05T08:00:31";
            assert_eq!(plan, expected);
        }
    }
}

#[test]
fn years_of_downtime_are_planned_without_counting_every_tick() {
    let bounds = MissedPolicy {
        ticks: 3,
        ..policy(Missed::All)
    };
    let planned = |rhythm: &Rhythm, due: &str, now: &str| planned(rhythm, bounds, due, now);
    for seconds in [cron("* * * * * *"), every(1)] {
        let plan = planned(&seconds, "2020-01-01T00:00:00", "2026-01-05T08:00:00");
        let run = "run [05T07:59:58 05T07:59:59 05T08:00:00] missed ";
        assert!(plan.starts_with(run), "{plan}");
        assert!(plan.ends_with(" 05T07:59:57 next 05T08:00:01"), "{plan}");
    }
    // The ticks of an interval still count from the first.
    let plan = planned(&every(7), "2020-01-01T00:00:00", "2020-01-02T00:00:00");
    let run = "run [01T23:59:40 01T23:59:47 01T23:59:54] missed ";
    assert!(plan.starts_with(run), "{plan}");
    // A line with many ticks long ago and none since. The others are too old.
    let once = cron("* * * 1 JAN *");
    let plan = planned(&once, "2026-01-01T00:00:00", "2026-12-05T08:00:00");
    assert!(plan.starts_with("run [01T23:59:59] missed "), "{plan}");
}

#[test]
fn just_more_ticks_than_are_counted_lose_none_of_the_newest() {
    let bounds = MissedPolicy {
        ticks: 100,
        ..policy(Missed::All)
    };
    // 10,005 seconds.
    let (due, now) = (at("2026-01-05T00:00:00Z"), at("2026-01-05T02:46:44Z"));
    let plan = plan(&cron("* * * * * *"), bounds, due, now).expect("a plan");
    assert_eq!(plan.run.len(), 100);
    assert_eq!(plan.run.first(), Some(&at("2026-01-05T02:45:05Z")));
    assert!(plan.missed >= 9900, "{}", plan.missed);
}
