//! Tests of the policies for missed ticks.

use super::*;
use crate::schedule::cron::CronLine;

fn at(text: &str) -> Timestamp {
    text.parse().expect(text)
}

fn cron(line: &str) -> Rhythm {
    Rhythm::Cron(CronLine::parse(line).expect(line))
}

fn every(seconds: u64) -> Rhythm {
    Rhythm::every(Duration::from_secs(seconds)).expect("an interval")
}

/// Returns the ticks that run, how many are missed, the latest of these and the next tick, as text.
fn planned(rhythm: &Rhythm, policy: Missed, due: &str, now: &str) -> String {
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
fn the_policy_decides_which_ticks_run() {
    let (all, latest) = (&Missed::ALL[..], &[Missed::Skip, Missed::Once][..]);
    let (daily, second) = (cron("0 8 * * *"), cron("* * * * * *"));
    let on_time = "run [05T08:00:00] missed 0 - next 06T08:00:00";
    let last_second = "run [05T08:00:30] missed 30 05T08:00:29 next 05T08:00:31";
    for (rhythm, policies, now, expected) in [
        (&daily, all, "05T08:00:00", on_time),
        (&daily, all, "05T08:01:00", on_time),
        (&every(86_400), all, "05T08:00:59", on_time),
        // It is not due.
        (
            &daily,
            all,
            "05T07:59:59",
            "run [] missed 0 - next 05T08:00:00",
        ),
        // Each second is due; only the last is on time.
        (&second, latest, "05T08:00:30.5", last_second),
        (&every(1), latest, "05T08:00:30.5", last_second),
    ] {
        for policy in policies {
            let now = format!("2026-01-{now}");
            let plan = planned(rhythm, *policy, "2026-01-05T08:00:00", &now);
            assert_eq!(plan, expected, "{policy} {now}");
        }
    }
    // Those of the last week, and the latest in any case.
    for (days, now, expected) in [
        (
            1,
            "12T08:00:00",
            "run [05 06 07 08 09 10 11 12] missed 0 - next 13",
        ),
        (
            1,
            "13T08:30:00",
            "run [07 08 09 10 11 12 13] missed 2 06 next 14",
        ),
        (9, "22T08:30:00", "run [14] missed 1 05 next 23"),
    ] {
        let (rhythm, now) = (every(days * 86_400), format!("2026-01-{now}"));
        let plan = planned(&rhythm, Missed::All, "2026-01-05T08:00:00", &now);
        assert_eq!(plan.replace("T08:00:00", ""), expected, "{days} {now}");
    }
}

#[test]
fn years_of_downtime_are_planned_without_counting_every_tick() {
    let planned = |rhythm: &Rhythm, due: &str, now: &str| planned(rhythm, Missed::All, due, now);
    for seconds in [cron("* * * * * *"), every(1)] {
        let plan = planned(&seconds, "2020-01-01T00:00:00", "2026-01-05T08:00:00");
        assert!(plan.starts_with("run [05T07:58:21 05T07:58:22 "), "{plan}");
        assert!(plan.contains(" 05T08:00:00] missed "), "{plan}");
        assert!(plan.ends_with(" 05T07:58:20 next 05T08:00:01"), "{plan}");
    }
    // A few are all counted.
    let plan = planned(&every(1), "2026-01-05T00:00:00", "2026-01-05T02:46:44");
    assert!(plan.contains("] missed 9905 "), "{plan}");
    // So many at once, long ago, that they would not fit into memory.
    let half = cron("* * * * 1-6 *");
    let plan = planned(&half, "2026-01-01T00:00:00", "2026-12-05T08:00:00");
    assert!(plan.starts_with("run [30T23:59:59] missed 1"), "{plan}");
    assert!(plan.len() < 70, "fewer than 100,000 are counted: {plan}");
    // The ticks of an interval still count from the first.
    let plan = planned(&every(7), "2020-01-01T00:00:00", "2020-01-02T00:00:00");
    assert!(plan.contains(" 01T23:59:47 01T23:59:54] missed "), "{plan}");
    // A line with many ticks long ago and none since. The others are too old.
    let once = cron("* * * 1 JAN *");
    let plan = planned(&once, "2026-01-01T00:00:00", "2026-12-05T08:00:00");
    assert!(plan.starts_with("run [01T23:59:59] missed "), "{plan}");
}
