//! Records of failovers to a standby that lagged behind: a lost job may leave its id to a later one.

use uuid::Uuid;

use super::rules;
use super::samples::{change, claimed_by_the_lost_worker, handler_event, succeeded};
use crate::checker::{Records, Rule};
use crate::db_trace::{Change, Place};
use crate::history::{HandlerEvent, Phase};

/// A second, in microseconds.
const SECOND: i64 = 1_000_000;

fn event(at: i64, phase: Phase, call: u64) -> HandlerEvent {
    HandlerEvent {
        call,
        ..handler_event(at, phase)
    }
}

/// A transactional handler of a lost job ends after a job with the same id has begun.
fn ended_after_its_successor_began() -> Records {
    let mut records = succeeded();
    let mut late = [
        event(-2 * SECOND, Phase::Begin, 1),
        event(25, Phase::Done, 1),
    ];
    for event in &mut late {
        event.is_transactional = true;
    }
    records.handlers.extend(late);
    records.handlers.sort_by_key(|event| event.at);
    records.terms.is_calm = false;
    records.terms.lossy_windows = vec![(-3 * SECOND, -2 * SECOND)];
    records
}

#[test]
fn a_handler_of_a_lost_job_ends_no_attempt_at_the_later_job_with_its_id() {
    let mut records = ended_after_its_successor_began();
    records.terms.lossy_windows[0].1 -= SECOND / 2;
    assert_eq!(rules(&records), []);
    for event in &mut records.handlers {
        event.is_transactional = true;
    }
    assert_eq!(rules(&records), [Rule::OneTransaction], "its own handler");
}

#[test]
fn an_attempt_of_a_lost_lease_is_no_verdict_on_the_next_one_after_a_failover() {
    let mut records = claimed_by_the_lost_worker();
    records.handlers = vec![
        event(1_000_130, Phase::Begin, 1),
        event(1_000_131, Phase::Outage, 1),
        event(1_000_132, Phase::Begin, 2),
        event(1_000_133, Phase::Done, 2),
    ];
    let mut ended = change(10, 1_000_140, Place::Leased, Change::Out);
    (ended.crashes, ended.attempt, ended.lease) = (1, 1, Some(Uuid::from_u128(2)));
    records.trace.push(ended);
    records.final_rows.clear();
    records.terms.is_calm = false;
    assert_eq!(rules(&records), []);
    records.terms.lossy_windows = vec![(0, SECOND)];
    assert_eq!(rules(&records), [], "the attempt fits the lost lease");
    records.handlers.swap(1, 3);
    (records.handlers[1].at, records.handlers[1].call) = (1_000_131, 1);
    (records.handlers[3].at, records.handlers[3].call) = (1_000_133, 2);
    assert_eq!(
        rules(&records),
        [Rule::Verdict],
        "the later one is the verdict"
    );
}
