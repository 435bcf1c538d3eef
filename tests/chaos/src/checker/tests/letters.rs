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

fn breaker(changes: &str) -> BreakerRow {
    let usual = "by=worker-1.1 name=gateway cause=outage kinds=dependent openings=1";
    let mut row = with(&with(&BreakerRow::default(), usual), changes);
    row.committed = row.at;
    row
}

/// A breaker opens, a probe fails, and the next one closes it. Another worker renews.
pub(super) fn closed() -> Records {
    let mut records = Records {
        breakers: [
            "at=1000000 state=open outages=5 delay_ms=1000 probe_at=2000000",
            "at=3000000 state=half_open probes=1 outages=5 delay_ms=1000 prober=9 probe_at=4000000",
            "at=4000000 state=open probes=1 outages=6 delay_ms=2000 probe_at=5000000",
            "at=7000000 state=half_open probes=2 outages=6 delay_ms=2000 prober=9 probe_at=8000000",
            "at=8000000 state=closed probes=2 outages=6 delay_ms=2000",
        ]
        .map(breaker)
        .to_vec(),
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
