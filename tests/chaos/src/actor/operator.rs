//! An operator: redrives, edits, discards and cancels, without looking much.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use postgres::types::Type;
use postgres::{Client, NoTls};
use redrive::{Act, Database, Driven, Edit, JobId, Letters, Rate, Result, RunOptions};

use crate::actor::{Options, QUEUE, opened};
use crate::record::{Said, Verb};

pub(super) fn run(options: &Options, over: &AtomicBool) {
    let log = options.log();
    log.say(
        0,
        Said::Began {
            pid: std::process::id(),
        },
    );
    let Some(db) = opened(options, over) else {
        return;
    };
    let mut dice = options.dice();
    let act = Act::new().person(&options.name).why("chaos");
    while !over.load(Ordering::Relaxed) {
        if options.rate > 0 {
            thread::sleep(Duration::from_secs(1) / options.rate);
            let op = log.asked(Verb::Redrive, &[], &[]);
            log.told(
                op,
                &db.redrive(&Letters::queue(QUEUE), &act)
                    .map(|done| numbers(&done.redriven)),
            );
            continue;
        }
        thread::sleep(Duration::from_millis(dice.u64(20..250)));
        let some = Letters::queue(QUEUE).limit(dice.u64(1..60));
        match dice.u32(0..20) {
            0..=7 => {
                let op = log.asked(Verb::Redrive, &[], &[]);
                log.told(
                    op,
                    &db.redrive(&some, &act).map(|done| numbers(&done.redriven)),
                );
            }
            8..=9 => {
                let op = log.asked(Verb::Run, &[], &[]);
                log.told(op, &drive(&db, &some, &act));
            }
            10..=11 => {
                let op = log.asked(Verb::Discard, &[], &[]);
                let few = Letters::queue(QUEUE).limit(2);
                log.told(op, &db.discard(&few, &act).map(|ids| numbers(&ids)));
            }
            12..=13 => {
                let op = log.asked(Verb::Edit, &[], &[]);
                let edited =
                    Edit::merge(r#"{"edited": true}"#).and_then(|edit| db.edit(&some, &edit, &act));
                log.told(op, &edited.map(|_| Vec::new()));
            }
            14..=16 => cancel(options, &db, &log, &mut dice),
            17..=18 => {
                let Some(id) = live(options, &mut dice) else {
                    continue;
                };
                let op = log.asked(Verb::Priority, &[], &[id]);
                let set = db.set_priority(JobId::new(id), dice.i16(-3..=3));
                log.told(op, &set.map(|_| Vec::new()));
            }
            _ => {
                let op = log.asked(Verb::Prune, &[], &[]);
                log.told(op, &db.prune(Duration::from_secs(1)).map(|_| Vec::new()));
            }
        }
    }
}

fn cancel(options: &Options, db: &Database, log: &crate::record::Log, dice: &mut fastrand::Rng) {
    let Some(id) = live(options, dice) else {
        return;
    };
    let op = log.asked(Verb::Cancel, &[], &[id]);
    let cancelled = db.cancel(JobId::new(id)).map(|what| match what {
        redrive::Cancelled::Dead => vec![id],
        _ => Vec::new(),
    });
    log.told(op, &cancelled);
}

/// Makes a run of these letters and drives it to its end.
fn drive(db: &Database, which: &Letters, act: &Act) -> Result<Vec<i64>> {
    let options = RunOptions::new().rate(Rate::Unthrottled);
    let Some((_, mut driver)) = db.start_run(which, &options, act)? else {
        return Ok(Vec::new());
    };
    loop {
        let step = driver.step()?;
        if step.driven != Driven::Running {
            return Ok(Vec::new());
        }
        thread::sleep(step.wait.min(Duration::from_millis(100)));
    }
}

/// A job that lived a moment ago.
fn live(options: &Options, dice: &mut fastrand::Rng) -> Option<i64> {
    let mut client =
        Client::connect(&format!("{}&connect_timeout=2", options.address()), NoTls).ok()?;
    let asked = "SELECT id FROM redrive.live_jobs ORDER BY id DESC LIMIT 1 OFFSET $1";
    // Not prepared: there may be a pooler.
    let row = client
        .query_typed_opt(asked, &[(&dice.i64(0..20), Type::INT8)])
        .ok()??;
    Some(row.get(0))
}

fn numbers(ids: &[JobId]) -> Vec<i64> {
    ids.iter().map(|id| id.get()).collect()
}
