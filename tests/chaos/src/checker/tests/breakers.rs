//! Breakers, each with one wrong fact.

use std::sync::Arc;

use uuid::Uuid;

use super::samples::{JOB, change, facts, handler_event};
use super::{Case, check_cases, rules};
use crate::checker::{Records, Rule, Terms, Violation};
use crate::db_trace::breakers::BreakerRow;
use crate::db_trace::{Change, Place, Renewal};
use crate::facts::Facts;
use crate::history::{ClientEvent, HistoryLine, Operation, Phase};
use crate::role::gateway::NO_ANSWER;

const SECOND: i64 = 1_000_000;
/// The worker that probes, and the one that does not.
const PROBER: Uuid = Uuid::from_u128(9);
const OTHER: Uuid = Uuid::from_u128(10);

fn row(at: i64, state: &str) -> BreakerRow {
    BreakerRow {
        at,
        began: at - 1,
        committed: at + 1,
        process: Arc::from("worker-1.1"),
        name: Arc::from("gateway"),
        state: Arc::from(state),
        cause: Arc::from("outage"),
        kinds: vec!["dependent".to_owned()],
        outages: 5,
        openings: 1,
        probes: 0,
        prober: None,
        delay_ms: 1000,
        probe_at: Some(at + SECOND),
    }
}

/// A breaker opens, a probe fails, and the next one closes it. Another worker renews.
fn closed() -> Records {
    let opened = row(SECOND, "open");
    let granted = BreakerRow {
        probes: 1,
        prober: Some(PROBER),
        ..row(3 * SECOND, "half_open")
    };
    let reopened = BreakerRow {
        probes: 1,
        outages: 6,
        delay_ms: 2000,
        ..row(4 * SECOND, "open")
    };
    let again = BreakerRow {
        probes: 2,
        prober: Some(PROBER),
        outages: 6,
        delay_ms: 2000,
        ..row(7 * SECOND, "half_open")
    };
    let closed = BreakerRow {
        probes: 2,
        outages: 6,
        delay_ms: 2000,
        probe_at: None,
        ..row(8 * SECOND, "closed")
    };
    let mut records = Records {
        breakers: vec![opened, granted, reopened, again, closed],
        terms: Terms {
            lease: SECOND,
            is_calm: true,
            ..Terms::default()
        },
        ..Records::default()
    };
    probe(&mut records, 1, 3 * SECOND, Phase::Outage);
    probe(&mut records, 2, 7 * SECOND, Phase::Done);
    for second in 1..9 {
        for worker in [PROBER, OTHER] {
            records.renewals.push(Renewal {
                at: second * SECOND,
                began: second * SECOND - 1,
                worker,
                process: Arc::from("worker-1.1"),
                queue: Arc::from(crate::role::QUEUE),
            });
        }
    }
    records
}

/// Adds a claim of the prober, whose handler ends like this.
fn probe(records: &mut Records, attempt: i32, at: i64, phase: Phase) {
    let mut claim = change(at, at + 10, Place::Leased, Change::In);
    claim.attempt = attempt;
    claim.lease = Some(Uuid::from_u128(u128::from(attempt.unsigned_abs())));
    claim.facts = Some(Arc::new(Facts {
        kind: Arc::from("dependent"),
        ..facts(None)
    }));
    records.trace.push(claim);
    for (at, phase) in [(at + 20, Phase::Begin), (at + 30, phase)] {
        let mut event = handler_event(at, phase);
        event.attempt = attempt;
        event.error = (phase == Phase::Outage).then(|| NO_ANSWER.to_owned());
        records.handlers.push(event);
    }
}

/// Whether a rule is broken. The claims have no enqueue, which other rules report.
fn breaks(records: &Records) -> bool {
    rules(records).contains(&Rule::Breaker)
}

/// An operator opens a breaker.
fn opened_by_hand() -> Records {
    let mut opened = row(SECOND, "open");
    opened.process = Arc::from("operator-1.1");
    opened.cause = Arc::from("operator");
    opened.outages = 0;
    let event = ClientEvent::Invoked {
        operation: Operation::OpenBreaker,
        keys: Vec::new(),
        ids: Vec::new(),
    };
    Records {
        breakers: vec![opened],
        history: vec![HistoryLine {
            at: 0,
            process: "operator-1.1".to_owned(),
            op: 1,
            event,
        }],
        ..Records::default()
    }
}

#[test]
fn a_breaker_that_opens_and_closes_has_no_violation() {
    assert!(
        !breaks(&closed()),
        "{:#?}",
        super::check(&closed()).violations
    );
    assert_eq!(rules(&opened_by_hand()), []);
    // The job found another dependency down, so this one works.
    let mut other = closed();
    other.handlers[3].phase = Phase::Outage;
    other.handlers[3].error = Some("the gateway is down".to_owned());
    assert!(!breaks(&other), "{:#?}", super::check(&other).violations);
}

/// An operator opens the breaker again soon after a grant of the first probe, and the prober claims its job this much
/// later.
fn probe_taken_back(later: i64) -> Records {
    let mut records = closed();
    let again = BreakerRow {
        cause: Arc::from("operator"),
        process: Arc::from("operator-1.1"),
        ..row(3 * SECOND, "open")
    };
    // Before the grant, the breaker had been open for long.
    records.breakers[0].at -= 100 * SECOND;
    records.breakers[0].committed -= 100 * SECOND;
    records.breakers.truncate(2);
    records.breakers.push(again);
    records.handlers.truncate(2);
    records.trace.truncate(1);
    for event in &mut records.handlers {
        event.at += later;
    }
    records.trace[0].at += later;
    records.trace[0].began += later;
    for second in 1..20 {
        let renewal = Renewal {
            at: 3 * SECOND - second,
            ..records.renewals[0].clone()
        };
        records.renewals.push(renewal);
    }
    records
}

#[test]
fn a_prober_has_time_to_learn_that_its_probe_was_taken_back() {
    let is_reported = |later| {
        let violations = super::check(&probe_taken_back(later)).violations;
        let is_start = |violation: &Violation| violation.what.contains("started it");
        violations.iter().any(is_start)
    };
    assert!(!is_reported(100));
    assert!(is_reported(30 * SECOND));
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn every_wrong_change_of_a_breaker_violates_its_rule() {
    let cases: &[Case] = &[
        (
            "opened below the threshold",
            closed,
            |r| r.breakers[0].outages = 4,
            Rule::Breaker,
        ),
        (
            "opened twice at once",
            closed,
            |r| r.breakers[0].openings = 2,
            Rule::Breaker,
        ),
        (
            "opened by a stranger",
            opened_by_hand,
            |r| r.history.clear(),
            Rule::Breaker,
        ),
        (
            "probed before it was due",
            closed,
            |r| r.breakers[0].probe_at = Some(4 * SECOND),
            Rule::Breaker,
        ),
        (
            "a probe without a number",
            closed,
            |r| r.breakers[1].probes = 0,
            Rule::Breaker,
        ),
        (
            "a probe without a prober",
            closed,
            |r| r.breakers[1].prober = None,
            Rule::Breaker,
        ),
        (
            "a probe of another worker that ends it",
            closed,
            |r| r.breakers[2].process = Arc::from("worker-2.1"),
            Rule::Breaker,
        ),
        (
            "a failed probe with the same delay",
            closed,
            |r| r.breakers[2].delay_ms = 1000,
            Rule::Breaker,
        ),
        (
            "a probe that loses a kind",
            closed,
            |r| r.breakers[2].kinds.clear(),
            Rule::Breaker,
        ),
        (
            "closed after a failed probe",
            closed,
            |r| {
                r.handlers[3].phase = Phase::Outage;
                r.handlers[3].error = Some(NO_ANSWER.to_owned());
            },
            Rule::Breaker,
        ),
        (
            "reopened after a successful probe",
            closed,
            |r| r.handlers[1].phase = Phase::Done,
            Rule::Breaker,
        ),
        (
            "closed by nobody",
            closed,
            |r| r.breakers[4].process = Arc::from("operator-1.1"),
            Rule::Breaker,
        ),
        (
            "closed without a probe",
            closed,
            |r| drop(r.trace.pop()),
            Rule::Breaker,
        ),
        (
            "two jobs of one probe",
            closed,
            |r| {
                let mut second = r.trace[0].clone();
                (second.job, second.at) = (JOB + 1, second.at + 1);
                r.trace.push(second);
                let mut begin = r.handlers[0].clone();
                begin.job = JOB + 1;
                r.handlers.push(begin);
            },
            Rule::Breaker,
        ),
        (
            "a start by a worker that knows",
            closed,
            |r| {
                let mut claim = r.trace[0].clone();
                (claim.job, claim.worker) = (JOB + 1, Some(OTHER));
                claim.process = Arc::from("worker-2.1");
                (claim.at, claim.began) = (6 * SECOND, 6 * SECOND);
                r.trace.push(claim);
            },
            Rule::Breaker,
        ),
    ];
    check_cases(cases);
}
