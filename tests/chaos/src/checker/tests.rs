//! Lives as they should be, and lives with one thing wrong.

use std::sync::Arc;

use uuid::Uuid;

use super::*;
use crate::record::{Edge, Said, Verb};
use crate::trail::Step;

/// A job that is enqueued at 0, claimed at 10 and ended at 30, with a lease of a second.
const JOB: i64 = 7;
const KEY: i64 = 70;

fn event(tx: i64, at: i64, place: Place, step: Step) -> Event {
    Event {
        seq: at * 10 + i64::from(step == Step::In),
        at,
        began: at,
        committed: at,
        tx,
        actor: Arc::from("worker-1.1"),
        job: JOB,
        place,
        step,
        attempt: 0,
        most: 4,
        generation: 0,
        crashes: 0,
        refunds: 0,
        lease: (place == Place::Leased).then(|| Uuid::from_u128(1)),
        worker: Some(Uuid::from_u128(9)),
        state: None,
        reason: None,
        key: None,
        held_key: None,
        due: None,
    }
}

fn effect(at: i64, edge: Edge) -> Effect {
    Effect {
        at,
        actor: "worker-1.1".to_owned(),
        job: JOB,
        generation: 0,
        attempt: 1,
        is_own: false,
        edge,
    }
}

fn line(at: i64, said: Said) -> Line {
    Line {
        at,
        actor: "enqueuer-1.1".to_owned(),
        op: 1,
        said,
    }
}

/// A job that is enqueued, claimed and done.
fn tidy() -> Records {
    let mut stored = event(1, 0, Place::Ready, Step::In);
    stored.actor = Arc::from("enqueuer-1.1");
    stored.key = Some(KEY);
    let mut leased = event(2, 10, Place::Leased, Step::In);
    leased.attempt = 1;
    let mut ended = event(3, 30, Place::Leased, Step::Out);
    ended.attempt = 1;
    let asked = Said::Asked {
        verb: Verb::Enqueue,
        keys: vec![KEY],
        ids: Vec::new(),
    };
    Records {
        lines: vec![line(-1, asked), line(1, Said::Ok { ids: vec![JOB] })],
        trail: vec![stored, event(2, 10, Place::Ready, Step::Out), leased, ended],
        renewals: vec![Renewal {
            at: 7,
            began: 5,
            worker: Uuid::from_u128(9),
        }],
        effects: vec![effect(15, Edge::Begin), effect(25, Edge::Done)],
        terms: Terms {
            lease: 1_000_000,
            crashes: 3,
            refunds: 10,
            is_calm: true,
            ..Terms::default()
        },
        ..Records::default()
    }
}

/// Its handler failed, and it waits.
fn retried() -> Records {
    let mut records = tidy();
    records.effects[1].edge = Edge::Retry;
    let mut back = event(3, 31, Place::Delayed, Step::In);
    (back.attempt, back.due) = (1, Some(90));
    let (mut out, mut ready) = (
        event(4, 95, Place::Delayed, Step::Out),
        event(4, 95, Place::Ready, Step::In),
    );
    (out.attempt, out.due, ready.attempt) = (1, Some(90), 1);
    records.trail.extend([back, out, ready]);
    records.remains.push(Remains {
        job: JOB,
        place: Place::Ready,
    });
    records
}

/// It was rejected.
fn died() -> Records {
    let mut records = tidy();
    records.effects[1].edge = Edge::Reject;
    let mut letter = event(3, 31, Place::Letter, Step::In);
    letter.attempt = 1;
    letter.state = Some(Arc::from("open"));
    letter.reason = Some(Arc::from("rejected"));
    records.trail.push(letter);
    records.remains.push(Remains {
        job: JOB,
        place: Place::Letter,
    });
    records
}

/// It was cancelled in the lease of a worker that gave it back unrun.
fn cancelled() -> Records {
    let mut records = died();
    records.effects.clear();
    records.trail[4].attempt = 0;
    records.trail[4].reason = Some(Arc::from("manual"));
    let asked = Said::Asked {
        verb: Verb::Cancel,
        keys: Vec::new(),
        ids: vec![JOB],
    };
    records.lines.push(line(12, asked));
    records
}

/// It was cancelled in the lease of a worker whose own transaction for it could not begin.
fn cancelled_before_it_began() -> Records {
    let mut records = cancelled();
    records.trail[4].attempt = 1;
    records.terms.is_calm = false;
    records
}

/// It has a key, and the commit of its end took so long that others still saw it live.
fn slowly_ended() -> Records {
    let mut records = tidy();
    for event in &mut records.trail {
        event.held_key = Some(Arc::from("k"));
    }
    records.trail[3].committed = 900_000;
    let asked = Said::Asked {
        verb: Verb::Enqueue,
        keys: vec![KEY + 1],
        ids: Vec::new(),
    };
    let answer = Said::Ok { ids: vec![-JOB] };
    records.lines.extend(
        [(800_000, asked), (800_001, answer)].map(|(at, said)| Line {
            op: 2,
            ..line(at, said)
        }),
    );
    records
}

/// Its worker was lost, and somebody else took it back at this moment.
fn reaped(at: i64) -> Records {
    let mut records = tidy();
    records.effects.pop();
    records.trail[3].at = at;
    records.trail[3].began = at;
    records.trail[3].actor = Arc::from("worker-2.1");
    let mut back = event(3, at, Place::Ready, Step::In);
    back.actor = Arc::from("worker-2.1");
    back.crashes = 1;
    records.trail.push(back);
    records.remains.push(Remains {
        job: JOB,
        place: Place::Ready,
    });
    records
}

/// The same by a statement that took long: its worker renewed when it had begun.
fn slowly_reaped() -> Records {
    let mut records = reaped(1_000_006);
    for event in &mut records.trail[3..] {
        event.at += 900_000;
    }
    let worker = records.renewals[0].worker;
    records.renewals.push(Renewal {
        at: 1_000_106,
        began: 1_000_100,
        worker,
    });
    records
}

fn rules(records: &Records) -> Vec<Rule> {
    let found = check(records).violations;
    let mut rules: Vec<Rule> = found.iter().map(|violation| violation.rule).collect();
    rules.dedup();
    // That what is ready in the end was not run is not the point here.
    rules.retain(|rule| *rule != Rule::NotStuck);
    rules
}

#[test]
fn lives_as_they_should_be_have_nothing_wrong() {
    for records in [
        tidy(),
        retried(),
        died(),
        cancelled(),
        cancelled_before_it_began(),
        slowly_ended(),
        reaped(1_000_006),
        slowly_reaped(),
    ] {
        assert_eq!(rules(&records), [], "{records:#?}");
    }
}

#[test]
fn what_waits_in_the_end_is_stuck() {
    let found = check(&retried()).violations;
    assert!(found.iter().any(|found| found.rule == Rule::NotStuck));
}

/// What is done to the records, and who notices.
type Case = (&'static str, fn() -> Records, fn(&mut Records), Rule);

#[test]
#[expect(clippy::too_many_lines, reason = "a table")]
fn one_thing_wrong_is_noticed() {
    let cases: &[Case] = &[
        ("lost", tidy, |r| r.trail.clear(), Rule::Honest),
        (
            "refused, and there",
            tidy,
            |r| r.lines[1].said = Said::Refused { why: String::new() },
            Rule::Honest,
        ),
        ("nobody asked", tidy, |r| r.lines.clear(), Rule::NotInvented),
        ("vanished", tidy, |r| r.trail.truncate(2), Rule::Kept),
        (
            "truncated",
            tidy,
            |r| r.trail[1].step = Step::Truncated,
            Rule::Kept,
        ),
        (
            "in two places",
            tidy,
            |r| drop(r.trail.remove(1)),
            Rule::OnePlace,
        ),
        (
            "done twice",
            tidy,
            |r| {
                let again = r.trail[1..].iter().cloned().map(|mut event| {
                    event.tx += 10;
                    event
                });
                let again: Vec<Event> = again.collect();
                r.trail.extend(again);
            },
            Rule::OnePlace,
        ),
        (
            "settled by a stranger",
            tidy,
            |r| r.trail[3].actor = Arc::from("worker-2.1"),
            Rule::Fenced,
        ),
        (
            "not charged",
            tidy,
            |r| r.trail[2].attempt = 0,
            Rule::Attempts,
        ),
        (
            "too many attempts",
            tidy,
            |r| (r.trail[2].attempt, r.trail[2].most) = (1, 0),
            Rule::Attempts,
        ),
        (
            "run without a claim",
            tidy,
            |r| r.effects[0].attempt = 3,
            Rule::Attempts,
        ),
        (
            "run before the claim",
            tidy,
            |r| r.effects[0].at = 5,
            Rule::Attempts,
        ),
        (
            "done, and failed",
            tidy,
            |r| r.effects[1].edge = Edge::Retry,
            Rule::Verdict,
        ),
        (
            "done, and never run",
            tidy,
            |r| r.effects.clear(),
            Rule::Verdict,
        ),
        (
            "run twice",
            tidy,
            |r| r.effects.insert(1, effect(16, Edge::Begin)),
            Rule::NoOverlap,
        ),
        (
            "held at a clean end",
            tidy,
            |r| {
                let said = Said::Ended { code: Some(0) };
                r.lines.push(Line {
                    at: 20,
                    actor: "worker-1.1".to_owned(),
                    op: 0,
                    said,
                });
            },
            Rule::CleanStop,
        ),
        (
            "an effect without an end",
            tidy,
            |r| r.own = BTreeMap::from([((JOB, 1), 1)]),
            Rule::OneTransaction,
        ),
        (
            "counted wrong",
            tidy,
            |r| {
                r.counters = BTreeMap::from([("redrive_jobs_enqueued_total".to_owned(), 2)]);
            },
            Rule::Counters,
        ),
        (
            "promoted early",
            retried,
            |r| r.trail[4].due = Some(200),
            Rule::NotEarly,
        ),
        (
            "charged for an outage",
            retried,
            |r| r.effects[1].edge = Edge::Outage,
            Rule::OutageFree,
        ),
        (
            "given back twice over",
            retried,
            |r| r.trail[4].attempt = -1,
            Rule::Attempts,
        ),
        (
            "the wrong reason",
            died,
            |r| r.trail[4].reason = Some(Arc::from("exhausted")),
            Rule::Reason,
        ),
        (
            "a lost worker that was there",
            died,
            |r| r.trail[4].reason = Some(Arc::from("worker_lost")),
            Rule::Reason,
        ),
        (
            "refunded as if it were cancelled",
            died,
            |r| r.trail[4].attempt = 0,
            Rule::Attempts,
        ),
        (
            "charged and never run",
            cancelled,
            |r| r.trail[4].attempt = 1,
            Rule::Reason,
        ),
        (
            "run to the end and refunded",
            cancelled,
            |r| r.effects = vec![effect(15, Edge::Begin), effect(25, Edge::Retry)],
            Rule::Attempts,
        ),
        (
            "another generation",
            died,
            |r| r.trail[4].generation = 2,
            Rule::Lineage,
        ),
        (
            "an open letter deleted",
            died,
            |r| {
                r.trail.push(event(9, 50, Place::Letter, Step::Out));
                r.remains.clear();
            },
            Rule::LawfulPrune,
        ),
        (
            "redriven from a letter that stays open",
            died,
            |r| {
                let mut back = event(9, 50, Place::Ready, Step::In);
                back.generation = 1;
                r.trail.push(back);
            },
            Rule::RedriveOnce,
        ),
        (
            "taken back too early",
            || reaped(1_000_004),
            |_| {},
            Rule::LawfulReap,
        ),
        (
            "taken back after a restart",
            || reaped(1_000_006),
            |r| r.terms.starts.push(50),
            Rule::LawfulReap,
        ),
        (
            "a suspect with mates",
            || reaped(1_000_006),
            |r| {
                for (step, place) in [(Step::Out, Place::Ready), (Step::In, Place::Leased)] {
                    let mut event = event(9, 1_000_120, place, step);
                    (event.crashes, event.attempt) = (1, i32::from(step == Step::In));
                    event.lease = (step == Step::In).then(|| Uuid::from_u128(2));
                    r.trail.push(event);
                }
                let mut mate = event(9, 1_000_120, Place::Leased, Step::In);
                (mate.job, mate.lease) = (JOB + 1, Some(Uuid::from_u128(2)));
                r.trail.push(mate);
            },
            Rule::SuspectsAlone,
        ),
        (
            "cancelled by nobody",
            cancelled,
            |r| drop(r.lines.pop()),
            Rule::Reason,
        ),
        (
            "cancelled and charged, and nothing kept it from running",
            cancelled_before_it_began,
            |r| r.terms.is_calm = true,
            Rule::Reason,
        ),
        (
            "told of a key that was free",
            slowly_ended,
            |r| r.trail[3].committed = 500_000,
            Rule::OneOfAKey,
        ),
        (
            "a key held twice",
            tidy,
            |r| {
                let mut twins = r.trail.clone();
                for event in r.trail.iter_mut().chain(&mut twins) {
                    event.held_key = Some(Arc::from("k"));
                }
                for event in &mut twins {
                    event.job = JOB + 1;
                    event.key = event.key.map(|key| key + 1);
                }
                r.trail.extend(twins);
            },
            Rule::OneOfAKey,
        ),
    ];
    for (what, life, change, rule) in cases {
        let mut records = life();
        change(&mut records);
        let found = rules(&records);
        assert!(found.contains(rule), "{what}: {found:?}");
    }
}
