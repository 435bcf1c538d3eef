//! Records of pauses, rate limits and schedules.

use std::sync::Arc;

use super::changed::ticked;
use super::samples::{JOB, change, handler_event, succeeded};
use super::{Case, check_cases, rules};
use crate::checker::{FinalRow, Path, RateLimit, Records, Rule, Tick, TickOutcome, check};
use crate::db_trace::{Change, PauseChange, Place, Renewal, RowChange};
use crate::history::{ClientEvent, HandlerEvent, HistoryLine, Operation, Phase};

/// A second, in microseconds.
const SECOND: i64 = 1_000_000;

/// The queue is paused for ten seconds. The worker renews each second, and its job starts after six.
fn started_in_pause() -> Records {
    let mut records = succeeded();
    let renewals = (1..6).map(|number| Renewal {
        at: number * SECOND,
        began: number * SECOND,
        ..records.renewals[0].clone()
    });
    let renewals: Vec<Renewal> = renewals.collect();
    records.renewals.extend(renewals);
    records.pauses.push(PauseChange {
        at: 0,
        committed: 0,
        queue: Arc::from("chaos"),
        ends_at: 10 * SECOND,
    });
    records.handlers[0].at = 6 * SECOND;
    records
}

/// Returns whether the rule about pauses is broken.
fn breaks_pause(records: &Records) -> bool {
    rules(records).contains(&Rule::Paused)
}

#[test]
fn a_start_in_a_pause_is_a_violation_once_its_worker_has_read_the_pause() {
    assert!(breaks_pause(&started_in_pause()));
    let mut late = started_in_pause();
    late.renewals.truncate(3);
    assert!(!breaks_pause(&late), "two renewals may have met a fault");
    let mut other = started_in_pause();
    other.pauses[0].queue = Arc::from("other");
    assert!(!breaks_pause(&other), "another queue is paused");
    let mut ended = started_in_pause();
    ended.pauses[0].ends_at = 5 * SECOND;
    assert!(!breaks_pause(&ended), "the pause is over");
    let mut resumed = started_in_pause();
    let resume = PauseChange {
        at: 5 * SECOND,
        ends_at: 0,
        ..resumed.pauses[0].clone()
    };
    resumed.pauses.push(resume);
    assert!(!breaks_pause(&resumed), "the queue was resumed");
}

#[test]
fn a_start_that_a_failover_may_have_lost_breaks_no_pause() {
    let mut records = started_in_pause();
    records.terms.lossy_windows.push((5 * SECOND, 7 * SECOND));
    assert!(!breaks_pause(&records), "another job may have had the id");
    records.terms.lossy_windows = vec![(0, SECOND)];
    assert!(breaks_pause(&records), "the failover was earlier");
}

/// A limit of two starts per second and a burst of two, with this many attempts, one per second.
fn limited(attempts: i64) -> Records {
    let mut records = succeeded();
    records.rate_limits.push(RateLimit {
        queue: "chaos".to_owned(),
        is_of_each_group: false,
        burst: 2.0,
        per_second: 2.0,
    });
    records.handlers = (0..attempts)
        .map(|number| handler_event(15 + number * SECOND, Phase::Begin))
        .collect();
    records
}

#[test]
fn more_starts_in_a_window_than_the_limit_allows_are_a_violation() {
    let breaks = |records: &Records| rules(records).contains(&Rule::RateLimit);
    assert!(!breaks(&limited(20)), "one per second");
    let mut at_once = limited(20);
    for event in &mut at_once.handlers {
        event.at = 15;
    }
    assert!(breaks(&at_once));
    at_once.rate_limits[0].queue = "other".to_owned();
    assert!(!breaks(&at_once), "another queue is limited");
}

/// The jobs of two groups, each with a limit of two starts per second and a burst of two. Each group starts six jobs
/// at once, which are within the limit and what processes may log late.
fn limited_groups() -> Records {
    let mut records = limited(1);
    records.rate_limits[0].is_of_each_group = true;
    let mut other = succeeded();
    for row in &mut other.trace {
        row.job += 1;
        row.key = row.key.map(|key| key + 1);
        if let Some(facts) = &mut row.facts {
            Arc::make_mut(facts).group_key = Some(Arc::from("other"));
        }
    }
    records.trace.extend(other.trace);
    for job in [JOB, JOB + 1] {
        let start = HandlerEvent {
            job,
            ..handler_event(15, Phase::Begin)
        };
        records.handlers.extend(vec![start; 6]);
    }
    records.handlers.remove(0);
    records
}

#[test]
fn each_group_has_a_separate_limit() {
    let breaks = |records: &Records| rules(records).contains(&Rule::RateLimit);
    assert!(!breaks(&limited_groups()), "each group keeps to the limit");
    let taken = check(&limited_groups()).paths;
    let reached = [Path::GroupRateReached, Path::RateReached].map(|path| taken.times(path) > 0);
    assert_eq!(reached, [true, false]);
    let mut shared = limited_groups();
    shared.rate_limits[0].is_of_each_group = false;
    assert!(breaks(&shared), "twelve of one queue");
    let one_more = |group: Option<&str>| {
        let mut records = limited_groups();
        for row in records.trace.iter_mut().filter(|row| row.job == JOB) {
            if let Some(facts) = &mut row.facts {
                Arc::make_mut(facts).group_key = group.map(Arc::from);
            }
        }
        records.handlers.insert(0, handler_event(15, Phase::Begin));
        records
    };
    assert!(breaks(&one_more(Some("g"))), "seven of a group");
    assert!(breaks(&one_more(Some("other"))), "the same group");
    assert!(!breaks(&one_more(None)), "no group");
}

/// Its group has no token, so that the transaction of the claim returns the job until its group may have one.
fn put_off() -> Records {
    let mut records = succeeded();
    let mut out = change(2, 10, Place::Leased, Change::Out);
    let mut delayed = change(2, 10, Place::Delayed, Change::In);
    (out.attempt, out.seq, delayed.due) = (1, 102, Some(400_000));
    delayed.seq = 103;
    let mut promoted = delayed.clone();
    (promoted.seq, promoted.tx, promoted.change) = (4_000_050, 4, Change::Out);
    (promoted.at, promoted.began, promoted.committed) = (400_005, 400_005, 400_005);
    let ready = change(4, 400_005, Place::Ready, Change::In);
    records.trace.truncate(3);
    records.trace.extend([out, delayed, promoted, ready]);
    records.handlers.clear();
    records.final_rows.push(FinalRow {
        job: JOB,
        place: Place::Ready,
    });
    records
}

#[test]
fn a_job_that_its_claim_returns_without_a_token_is_in_one_place_and_not_charged() {
    assert_eq!(rules(&put_off()), []);
    let findings = check(&put_off());
    let times = |path| findings.paths.times(path);
    assert_eq!(
        [Path::PutOff, Path::Released, Path::Claimed].map(times),
        [1, 0, 1]
    );
    let cases: &[Case] = &[
        (
            "charged",
            put_off,
            |r| r.trace[4].attempt = 1,
            Rule::Verdict,
        ),
        (
            "ready at once, too",
            put_off,
            |r| {
                let twin = change(2, 10, Place::Ready, Change::In);
                r.trace.insert(5, twin);
            },
            Rule::OnePlace,
        ),
    ];
    check_cases(cases);
}

/// The second tick of the schedule, with this outcome.
fn second(outcome: TickOutcome, job: Option<i64>) -> Tick {
    Tick {
        schedule: "chaos-schedule".to_owned(),
        outcome,
        tx: 2 * SECOND,
        written: 2 * SECOND,
        at: 2 * SECOND,
        job,
        ticks: 1,
    }
}

#[test]
fn every_wrong_history_of_a_schedule_violates_its_rule() {
    let cases: &[Case] = &[
        (
            "a tick before its time",
            ticked,
            |r| r.ticks[0].written = SECOND - 1,
            Rule::Schedule,
        ),
        (
            "a tick in a pause",
            ticked,
            |r| r.ticks.insert(1, second(TickOutcome::Paused, None)),
            Rule::Schedule,
        ),
        (
            "a tick that was skipped for a job that had ended",
            ticked,
            |r| r.ticks[1] = second(TickOutcome::Overlapped, Some(JOB)),
            Rule::Schedule,
        ),
        (
            "several due ticks of a schedule that runs the latest",
            ticked,
            |r| {
                let twins = r.trace.iter().cloned().map(|mut row| {
                    row.job += 1;
                    row
                });
                let twins: Vec<RowChange> = twins.collect();
                r.trace.extend(twins);
                r.ticks[1] = second(TickOutcome::Fired, Some(JOB + 1));
                for tick in &mut r.ticks {
                    tick.schedule = "chaos-once".to_owned();
                    tick.tx = 1;
                }
                r.ticks[1].at = 3 * SECOND;
            },
            Rule::Schedule,
        ),
        (
            "an overlap that no key prevents",
            ticked,
            |r| {
                r.ticks.truncate(1);
                r.ticks[0].schedule = "chaos-overlap".to_owned();
            },
            Rule::Schedule,
        ),
        (
            "a trigger that is not in the history",
            ticked,
            |r| {
                let invoked = ClientEvent::Invoked {
                    operation: Operation::Trigger,
                    keys: Vec::new(),
                    ids: Vec::new(),
                };
                for event in [invoked, ClientEvent::Ok { ids: vec![JOB + 1] }] {
                    r.history.push(HistoryLine {
                        at: 40,
                        process: "operator-1.1".to_owned(),
                        op: 1,
                        event,
                    });
                }
            },
            Rule::Schedule,
        ),
    ];
    check_cases(cases);
}
