//! Records of correct histories of letters, policies and breakers.

use super::notation::with;
use super::samples::{SECOND, renewal};
use crate::checker::{Records, Terms};
use crate::db_trace::{BreakerRow, LetterRow, PolicyTick};
use crate::role::gateway::NO_ANSWER;

const SENT: &str = "state,changed_at,events";
const DIED: &str = "state,generation,died_at,changed_at,deaths,events";

/// The letter after its first death.
fn died() -> LetterRow {
    let row = "tx=1 at=12 began=10 by=operator-1.1 letter=7 state=open group=1 changed_at=11 died_at=11 content=content";
    let error = "cause=rejected class=Rejected message=no attempts=2 deaths=1 seen=1";
    with(&with(&LetterRow::default(), row), error)
}

/// The next change of the letter.
fn updated(before: &LetterRow, tx: i64, at: i64, state: &str, columns: &str) -> LetterRow {
    let row = format!("tx={tx} at={} began={at} changed_at={}", at + 2, at + 1);
    let row = with(before, &row);
    with(&row, &format!("change=u state={state} columns={columns}"))
}

fn records(letters: Vec<LetterRow>) -> Records {
    Records {
        letters,
        ..Records::default()
    }
}

/// Its job dies, is sent back and dies again, of the same error.
pub(super) fn died_again() -> Records {
    let sent = updated(&died(), 2, 20, "redriving", SENT);
    let again = updated(&sent, 3, 30, "open", DIED);
    let counts = "generation=1 attempts=1 earlier=2 deaths=2 alike=1 failed=1";
    let again = with(&with(&again, counts), "died_at=31");
    records(vec![died(), sent, again])
}

/// A policy redrives it at its tick.
pub(super) fn redriven_by_policy() -> Records {
    let columns = format!("{SENT},policy_id");
    let sent = updated(&died(), 2, SECOND, "redriving", &columns);
    let tick = "began=1000000 tx=2 by=worker-1.1 policy=3 due=999995 next=1999995 letters=1";
    let tick = with(&PolicyTick::default(), tick);
    let later = "began=2000000 tx=3 due=1999995 next=2999995 letters=0";
    let later = with(&tick, later);
    Records {
        policy_ticks: vec![tick, later],
        ..records(vec![died(), with(&sent, "policy=3")])
    }
}

fn breaker(seconds: i64, state: &str, probes: i64) -> BreakerRow {
    let at = seconds * SECOND;
    let (outages, delay) = if seconds < 4 { (5, 1000) } else { (6, 2000) };
    let (prober, probe_at) = match state {
        "half_open" => ("9", (at + SECOND).to_string()),
        "open" => ("", (at + SECOND).to_string()),
        _ => ("", String::new()),
    };
    let row = format!(
        "at={at} began={} committed={} by=worker-1.1 state={state} probes={probes}",
        at - 1,
        at + 1
    );
    let what = format!(
        "name=gateway cause=outage kinds=dependent outages={outages} openings=1 delay_ms={delay}"
    );
    let row = with(&with(&BreakerRow::default(), &row), &what);
    with(&row, &format!("prober={prober} probe_at={probe_at}"))
}

/// A breaker opens, a probe fails, and the next one closes it. Another worker renews.
pub(super) fn closed() -> Records {
    let mut records = Records {
        breakers: vec![
            breaker(1, "open", 0),
            breaker(3, "half_open", 1),
            breaker(4, "open", 1),
            breaker(7, "half_open", 2),
            breaker(8, "closed", 2),
        ],
        terms: Terms {
            lease: SECOND,
            is_calm: true,
            ..Terms::default()
        },
        ..Records::default()
    };
    records.add(
        "1 0 r+ kind=dependent
         3000000 3000010 r-
         3000000 3000010 l+ kind=dependent attempt=1
         begin 3000020; outage 3000030
         3000001 3000040 l- attempt=1
         3000001 3000041 r+ kind=dependent attempt=1
         7000000 7000010 r- attempt=1
         7000000 7000010 l+ kind=dependent attempt=2 lease=2
         begin 7000020 attempt=2; done 7000030 attempt=2",
    );
    records.handlers[1].error = Some(NO_ANSWER.to_owned());
    for second in 1..9 {
        let at = second * SECOND;
        let workers =
            ["9", "10"].map(|worker| renewal(&format!("at={at} began={} worker={worker}", at - 1)));
        records.renewals.extend(workers);
    }
    records
}
