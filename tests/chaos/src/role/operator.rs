//! An operator: redrives, edits, discards, reopens, cancels, prunes, pauses and resumes at random, and changes waiting
//! jobs.

mod grouped;
mod live;
mod scheduling;
mod upkeep;
mod validated;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use postgres::types::Type;
use postgres::{Client, NoTls};
use redrive::admin::Cancelled;
use redrive::dlq::runs::{DriveStatus, Rate, RunOptions};
use redrive::dlq::{Edit, ForeignFailure, Letter, LetterFilter, Sink};
use redrive::{Database, Failure, JobId, Operator, PauseEnd, Payload as _, Queue, Result};

use crate::history::{ClientEvent, ClientLog, Operation};
use crate::role::keeping::PRUNE_AGE;
use crate::role::{Options, QUEUE, Work, connect, standing};

pub(crate) use grouped::release;
pub(crate) use live::change_jobs;
pub(crate) use scheduling::{pause, resume, trigger};
pub(crate) use validated::{reason_of, redrive_valid};

/// The positions of captured failures.
const POSITIONS: i64 = 40;
/// The key in the payload of the first position.
const CAPTURED_KEYS: i64 = 1 << 38;

pub(super) fn run(options: &Options, stop: &AtomicBool) {
    let log = options.log();
    log.write(
        0,
        ClientEvent::Started {
            pid: std::process::id(),
        },
    );
    let Some(db) = connect(options, stop) else {
        return;
    };
    let mut random = options.random();
    let operator = Operator::new(&options.name).reason("chaos");
    while !stop.load(Ordering::Relaxed) && standing::set(&db, &operator).is_err() {
        thread::sleep(Duration::from_millis(100));
    }
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(random.u64(20..150)));
        if random.u32(0..4) == 0 {
            upkeep::keep_up(options, &db, &log, &operator, &mut random);
            continue;
        }
        let some = LetterFilter::new().queue(QUEUE).limit(random.u64(1..60));
        match random.u32(0..51) {
            0..=5 => {
                let op = log.invoke(Operation::Redrive, &[], &[]);
                let redriven = db.dlq().redrive(&some, &operator);
                log.complete(op, &redriven.map(|done| numbers(&done.redriven)));
            }
            8..=9 => {
                let op = log.invoke(Operation::Run, &[], &[]);
                log.complete(op, &drive_run(&db, &some, &run_options(), &operator));
            }
            6 | 10 => {
                let op = log.invoke(Operation::Reopen, &[], &[]);
                let reopened = db.dlq().reopen(&some, &operator);
                log.complete(op, &reopened.map(|ids| numbers(&ids)));
            }
            7 | 11 => {
                let op = log.invoke(Operation::Discard, &[], &[]);
                let few = LetterFilter::new().queue(QUEUE).limit(2);
                log.complete(
                    op,
                    &db.dlq().discard(&few, &operator).map(|ids| numbers(&ids)),
                );
            }
            12..=13 => {
                let op = log.invoke(Operation::Edit, &[], &[]);
                let edited = Edit::merge(&format!(r#"{{"edited": {}}}"#, random.u32(0..1000)))
                    .and_then(|edit| db.dlq().edit(&some, &edit, &operator));
                log.complete(op, &edited.map(|edited| numbers(&edited.edited)));
            }
            14..=16 => cancel(options, &db, &log, &mut random, &operator),
            17..=18 => {
                let Some(id) = recent_job(options, &mut random) else {
                    continue;
                };
                let op = log.invoke(Operation::Priority, &[], &[id]);
                let set = db.admin().set_priority(JobId::new(id), random.i16(-3..=3));
                log.complete(op, &set.map(|is_set| Vec::from_iter(is_set.then_some(id))));
            }
            19 => pause_for_a_while(&db, &log, &operator, &mut random),
            20 => resume_queue(&db, &log, &operator),
            21..=26 => capture(&db, &log, &mut random),
            27..=28 => {
                let op = log.invoke(Operation::Deliver, &[], &[]);
                let few = LetterFilter::new().queue(QUEUE).limit(random.u64(1..4));
                let delivered = db.dlq().deliver(&few, &Outside, &operator);
                log.complete(op, &delivered.map(|_| Vec::new()));
            }
            29 => {
                let op = log.invoke(Operation::OpenBreaker, &[], &[]);
                let lasting = Duration::from_millis(random.u64(50..1500));
                let opened =
                    db.admin()
                        .open_breaker(&format!("queue:{QUEUE}"), Some(lasting), &operator);
                log.complete(op, &opened.map(|()| vec![1]));
            }
            31..=42 => grouped::operate(&db, &log, &mut random, &operator),
            43..=44 => scheduling::operate(&db, &log, &mut random, &operator),
            45..=48 => live::operate(&db, &log, &mut random, &operator),
            49..=50 => redrive_valid(&db, &log, &some, &operator),
            _ => {
                let op = log.invoke(Operation::Prune, &[], &[]);
                log.complete(
                    op,
                    &db.dlq().prune(PRUNE_AGE, &operator).map(|pruned| {
                        Vec::from_iter(i64::try_from(pruned).ok().filter(|pruned| *pruned > 0))
                    }),
                );
            }
        }
    }
}

/// Pauses the queue. The pause ends without the operator, whose process may be killed.
fn pause_for_a_while(
    db: &Database,
    log: &ClientLog,
    operator: &Operator,
    random: &mut fastrand::Rng,
) {
    let op = log.invoke(Operation::Pause, &[], &[]);
    let end = PauseEnd::After(Duration::from_millis(random.u64(50..1500)));
    let paused = Queue::new(db, QUEUE).and_then(|queue| queue.pause(end, operator));
    log.complete(op, &paused.map(|()| vec![1]));
}

fn resume_queue(db: &Database, log: &ClientLog, operator: &Operator) {
    let op = log.invoke(Operation::Resume, &[], &[]);
    let resumed = Queue::new(db, QUEUE).and_then(|queue| queue.resume(operator));
    log.complete(
        op,
        &resumed.map(|was_paused| Vec::from_iter(was_paused.then_some(1))),
    );
}

/// A system that takes letters.
struct Outside;

impl Sink for Outside {
    fn send(&self, letter: &Letter) -> std::result::Result<(), Failure> {
        match letter.id.get() % 5 {
            0 => Err(Failure::retry("the other system is down")),
            _ => Ok(()),
        }
    }
}

/// Captures the failure of one of 40 positions, which other captures may have stored.
fn capture(db: &Database, log: &ClientLog, random: &mut fastrand::Rng) {
    let position = random.i64(0..POSITIONS);
    let work = serde_json::to_vec(&Work::instant(CAPTURED_KEYS + position));
    let failure = ForeignFailure::new(
        "chaos",
        position.to_string(),
        QUEUE,
        Work::KIND,
        work.expect("a payload is JSON"),
    );
    let op = log.invoke(Operation::Capture, &[position], &[]);
    let captured = db.dlq().capture(&failure.error("Foreign", "captured"));
    log.complete(op, &captured.map(|outcome| vec![outcome.id().get()]));
}

/// Cancels a job, as a program or as a person.
fn cancel(
    options: &Options,
    db: &Database,
    log: &ClientLog,
    random: &mut fastrand::Rng,
    operator: &Operator,
) {
    let found = match random.bool() {
        true => recent_job(options, random),
        false => leased_job(options, random),
    };
    let Some(id) = found else {
        return;
    };
    let op = log.invoke(Operation::Cancel, &[], &[id]);
    let job = JobId::new(id);
    let cancelled = match random.bool() {
        true => db.admin().cancel(job),
        false => db.admin().jobs().cancel(job, operator),
    };
    let cancelled = cancelled.map(|cancelled| match cancelled {
        Cancelled::Dead => vec![id],
        // The job runs.
        Cancelled::Asked => vec![-id],
        _ => Vec::new(),
    });
    log.complete(op, &cancelled);
}

fn run_options() -> RunOptions {
    RunOptions::new().rate(Rate::Unthrottled).never_halt()
}

/// Starts a redrive run of these letters and drives it to its end.
fn drive_run(
    db: &Database,
    filter: &LetterFilter,
    options: &RunOptions,
    operator: &Operator,
) -> Result<Vec<i64>> {
    let Some((_, mut driver)) = db.dlq().runs().start(filter, options, operator)? else {
        return Ok(Vec::new());
    };
    loop {
        let step = driver.step()?;
        if step.status != DriveStatus::Running {
            return Ok(Vec::new());
        }
        thread::sleep(step.wait.min(Duration::from_millis(100)));
    }
}

/// Returns one of the 20 latest live jobs.
fn recent_job(options: &Options, random: &mut fastrand::Rng) -> Option<i64> {
    let query = "SELECT id FROM redrive.live_jobs ORDER BY id DESC LIMIT 1 OFFSET $1";
    one_of_20(options, query, random)
}

/// Returns one of the 20 latest leased jobs. With a backlog, none of the latest live jobs runs.
fn leased_job(options: &Options, random: &mut fastrand::Rng) -> Option<i64> {
    let query = "SELECT id FROM redrive.live_jobs WHERE state = 'leased' ORDER BY id DESC LIMIT 1 OFFSET $1";
    one_of_20(options, query, random)
}

/// Returns one of the first 20 ids that the query finds.
fn one_of_20(options: &Options, query: &str, random: &mut fastrand::Rng) -> Option<i64> {
    let url = format!("{}&connect_timeout=2", options.named_url());
    let mut client = Client::connect(&url, NoTls).ok()?;
    // Unprepared, because a pooler may be in between.
    let row = client
        .query_typed_opt(query, &[(&random.i64(0..20), Type::INT8)])
        .ok()??;
    Some(row.get(0))
}

fn numbers(ids: &[JobId]) -> Vec<i64> {
    ids.iter().map(|id| id.get()).collect()
}
