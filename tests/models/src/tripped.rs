//! Breakers of the models: what the statements about them do, as their headers in
//! `crates/redrive/sql` say.

use std::collections::BTreeSet;
use std::time::Duration;

use postgres::types::Type;
use uuid::Uuid;

use crate::floor::Instant;
use crate::rows::{Row, parameter};
use crate::scene::random_time;
use crate::server::Tables;
use crate::session::Parameter;
use crate::statements::{KIND, milliseconds, uuid};

/// Whether jobs are claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Closed,
    Open,
    HalfOpen,
}

/// The row of a breaker.
#[derive(Clone, Debug)]
pub(crate) struct Breaker {
    pub(crate) state: State,
    pub(crate) why: String,
    pub(crate) kinds: Vec<String>,
    pub(crate) openings: u64,
    pub(crate) probes: i64,
    pub(crate) prober: Option<Uuid>,
    pub(crate) wait: Duration,
    pub(crate) opened_at: Instant,
    /// None: it is closed.
    pub(crate) probe_at: Option<Instant>,
}

/// Whether one is not closed.
pub(crate) fn any_is_open(tables: &Tables) -> bool {
    tables
        .breakers
        .values()
        .any(|breaker| breaker.state != State::Closed)
}

/// Opens a breaker; one that is open learns of further kinds.
pub(crate) fn trip(tables: &mut Tables, given: &[Parameter<'_>]) -> Vec<Row> {
    let name: String = parameter(given, 1, &Type::TEXT);
    let why: String = parameter(given, 2, &Type::TEXT);
    let kinds: Vec<String> = parameter(given, 4, &Type::TEXT_ARRAY);
    let wait = milliseconds(parameter(given, 6, &Type::INT8));
    let now = Instant::now();
    let breaker = tables.breakers.entry(name.clone()).or_insert(Breaker {
        state: State::Closed,
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
    if breaker.state == State::Closed {
        breaker.state = State::Open;
        breaker.why = why;
        breaker.openings += 1;
        breaker.wait = wait;
        breaker.opened_at = now;
        breaker.probe_at = Some(now + wait);
    }
    let row = gated(&name, breaker);
    tables.told.breakers += 1;
    vec![row]
}

/// The breakers that are not closed.
pub(crate) fn open(tables: &Tables) -> Vec<Row> {
    let is_open = |(_, breaker): &(&String, &Breaker)| breaker.state != State::Closed;
    let open = tables.breakers.iter().filter(is_open);
    open.map(|(name, breaker)| gated(name, breaker)).collect()
}

fn gated(name: &str, breaker: &Breaker) -> Row {
    let probe_in = breaker.probe_at.map(|at| in_ms(at - Instant::now()));
    Row::default()
        .with("name", Type::TEXT, &name)
        .with("why", Type::TEXT, &breaker.why)
        .with("kinds", Type::TEXT_ARRAY, &breaker.kinds)
        .with("delay_ms", Type::INT8, &in_ms(breaker.wait))
        .with("probe_in_ms", Type::INT8, &probe_in)
}

fn in_ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Takes the right to a probe, if it is due and there is a job for it.
pub(crate) fn take_probe(tables: &mut Tables, given: &[Parameter<'_>]) -> Vec<Row> {
    let name: String = parameter(given, 1, &Type::TEXT);
    let worker = uuid(given, 2);
    let lasting = milliseconds(parameter(given, 3, &Type::INT8));
    let kinds: Option<Vec<String>> = parameter(given, 5, &Type::TEXT_ARRAY);
    let would_do = kinds.is_none_or(|kinds| kinds.iter().any(|kind| kind == KIND));
    let has_job = would_do && !tables.ready.is_empty();
    let now = Instant::now();
    let Some(breaker) = tables.breakers.get_mut(&name) else {
        return Vec::new();
    };
    if !has_job || breaker.probe_at.is_none_or(|at| at > now) {
        return Vec::new();
    }
    breaker.state = State::HalfOpen;
    breaker.probes += 1;
    breaker.prober = Some(worker);
    breaker.probe_at = Some(now + lasting);
    let number = breaker.probes;
    tables.right = Some((worker, number));
    tables.note(|| format!("probe {number} is had by {worker}"));
    vec![Row::default().with("number", Type::INT8, &number)]
}

/// Ends a probe, when its right is the last one that was given.
pub(crate) fn end_probe(tables: &mut Tables, given: &[Parameter<'_>]) -> Vec<Row> {
    let name: String = parameter(given, 1, &Type::TEXT);
    let number: i64 = parameter(given, 2, &Type::INT8);
    let what: String = parameter(given, 3, &Type::TEXT);
    let longest = milliseconds(parameter(given, 4, &Type::INT8));
    let now = Instant::now();
    let Some(breaker) = tables.breakers.get_mut(&name) else {
        return Vec::new();
    };
    if breaker.probes != number || breaker.state != State::HalfOpen {
        return Vec::new();
    }
    breaker.prober = None;
    if what == "close" {
        breaker.state = State::Closed;
        breaker.probe_at = None;
    } else {
        if what == "reopen" {
            breaker.wait = longest.min(breaker.wait * 2);
        }
        breaker.state = State::Open;
        let spread = random_time(breaker.wait.mul_f64(0.4));
        breaker.probe_at = Some(now + breaker.wait.mul_f64(0.8) + spread);
    }
    tables.told.breakers += 1;
    tables.note(|| format!("probe {number} ends: {what}"));
    vec![Row::default()]
}
