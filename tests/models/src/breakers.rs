//! The statements about breakers, as described by their headers in `crates/redrive/sql`.

use std::collections::BTreeSet;
use std::time::Duration;

use postgres::types::Type;
use uuid::Uuid;

use crate::rows::{Row, parameter};
use crate::scenario::random_time;
use crate::server::Tables;
use crate::session::Parameter;
use crate::statements::{KIND, milliseconds, uuid};
use crate::sync::Instant;

/// The state of a breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BreakerState {
    Closed,
    Open,
    HalfOpen,
}

/// The row of a breaker.
#[derive(Clone, Debug)]
pub(crate) struct Breaker {
    pub(crate) state: BreakerState,
    pub(crate) why: String,
    pub(crate) kinds: Vec<String>,
    pub(crate) openings: u64,
    pub(crate) probes: i64,
    pub(crate) prober: Option<Uuid>,
    pub(crate) wait: Duration,
    pub(crate) opened_at: Instant,
    /// `None` while it is closed.
    pub(crate) probe_at: Option<Instant>,
}

/// Opens a breaker, or adds kinds to an open one.
pub(crate) fn trip(tables: &mut Tables, given: &[Parameter<'_>]) -> Vec<Row> {
    let name: String = parameter(given, 1, &Type::TEXT);
    let why: String = parameter(given, 2, &Type::TEXT);
    let kinds: Vec<String> = parameter(given, 4, &Type::TEXT_ARRAY);
    let wait = milliseconds(parameter(given, 6, &Type::INT8));
    let now = Instant::now();
    let breaker = tables.breakers.entry(name.clone()).or_insert(Breaker {
        state: BreakerState::Closed,
        why: why.clone(),
        kinds: Vec::new(),
        openings: 0,
        probes: 0,
        prober: None,
        wait,
        opened_at: now,
        probe_at: None,
    });
    let all: BTreeSet<String> = breaker.kinds.drain(..).chain(kinds).collect();
    breaker.kinds = all.into_iter().collect();
    if breaker.state == BreakerState::Closed {
        breaker.state = BreakerState::Open;
        breaker.why = why;
        breaker.openings += 1;
        breaker.wait = wait;
        breaker.opened_at = now;
        breaker.probe_at = Some(now + wait);
    }
    let row = gated(&name, breaker);
    tables.notified.breakers += 1;
    vec![row]
}

/// Returns the breakers that are open or half open.
pub(crate) fn open(tables: &Tables) -> Vec<Row> {
    let is_open = |(_, breaker): &(&String, &Breaker)| breaker.state != BreakerState::Closed;
    let open = tables.breakers.iter().filter(is_open);
    open.map(|(name, breaker)| gated(name, breaker)).collect()
}

fn gated(name: &str, breaker: &Breaker) -> Row {
    let probe_in = breaker.probe_at.map(|at| in_ms(at - Instant::now()));
    Row::default()
        .with("name", Type::TEXT, &name)
        .with("cause", Type::TEXT, &breaker.why)
        .with("kinds", Type::TEXT_ARRAY, &breaker.kinds)
        .with("wait", Type::INT8, &in_ms(breaker.wait))
        .with("probe_in", Type::INT8, &probe_in)
}

fn in_ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Takes a probe if it is due and a job is ready for it.
pub(crate) fn take_probe(tables: &mut Tables, given: &[Parameter<'_>]) -> Vec<Row> {
    let name: String = parameter(given, 1, &Type::TEXT);
    let worker = uuid(given, 2);
    let lasting = milliseconds(parameter(given, 3, &Type::INT8));
    let kinds: Option<Vec<String>> = parameter(given, 5, &Type::TEXT_ARRAY);
    let except: Option<Vec<String>> = parameter(given, 6, &Type::TEXT_ARRAY);
    let max_crashes: i32 = parameter(given, 7, &Type::INT4);
    let is_served = kinds.is_none_or(|kinds| kinds.iter().any(|kind| kind == KIND))
        && except.is_none_or(|except| except.iter().all(|kind| kind != KIND));
    let mut ready = tables.ready.values();
    let has_job = is_served && ready.any(|job| i32::from(job.crashes) <= max_crashes);
    let now = Instant::now();
    let Some(breaker) = tables.breakers.get_mut(&name) else {
        return Vec::new();
    };
    if breaker.probe_at.is_none_or(|at| at > now) {
        return Vec::new();
    }
    if !has_job {
        return vec![granted(false, None)];
    }
    breaker.state = BreakerState::HalfOpen;
    breaker.probes += 1;
    breaker.prober = Some(worker);
    breaker.probe_at = Some(now + lasting);
    let number = breaker.probes;
    tables.taken_probe = Some((worker, number));
    tables.note(|| format!("{worker} takes probe {number}"));
    vec![granted(true, Some(number))]
}

fn granted(has_job: bool, number: Option<i64>) -> Row {
    Row::default()
        .with("has_job", Type::BOOL, &has_job)
        .with("number", Type::INT8, &number)
}

/// Ends a probe, unless a later one was taken.
pub(crate) fn end_probe(tables: &mut Tables, given: &[Parameter<'_>]) -> Vec<Row> {
    let name: String = parameter(given, 1, &Type::TEXT);
    let number: i64 = parameter(given, 2, &Type::INT8);
    let outcome: String = parameter(given, 3, &Type::TEXT);
    let longest = milliseconds(parameter(given, 4, &Type::INT8));
    let now = Instant::now();
    let Some(breaker) = tables.breakers.get_mut(&name) else {
        return Vec::new();
    };
    if breaker.probes != number || breaker.state != BreakerState::HalfOpen {
        return Vec::new();
    }
    breaker.prober = None;
    if outcome == "close" {
        breaker.state = BreakerState::Closed;
        breaker.probe_at = None;
    } else {
        if outcome == "reopen" {
            breaker.wait = longest.min(breaker.wait * 2);
        }
        breaker.state = BreakerState::Open;
        let spread = random_time(breaker.wait.mul_f64(0.4));
        breaker.probe_at = Some(now + breaker.wait.mul_f64(0.8) + spread);
    }
    tables.notified.breakers += 1;
    tables.note(|| format!("probe {number} ends: {outcome}"));
    vec![Row::default()]
}
