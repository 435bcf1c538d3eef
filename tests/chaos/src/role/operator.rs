//! The operations of operators, and an operator that carries them out at random.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use postgres::types::Type;
use postgres::{Client, NoTls};
use redrive::admin::{Cancelled, JobChange, JobFilter};
use redrive::dlq::runs::{DriveStatus, RunOptions};
use redrive::dlq::{Edit, Letter, LetterFilter, Sink};
use redrive::schedule::Triggered;
use redrive::{Database, Failure, JobId, Operator, PauseEnd, Payload as _, Queue, Result};

use crate::history::{ClientLog, Operation};
use crate::role::gateway::GATEWAY;
use crate::role::groups::{HOLDING_QUEUES, OTHER_QUEUES};
use crate::role::keeping::{self, PRUNE_AGE};
use crate::role::standing::{self, SCHEDULES};
use crate::role::{Options, QUEUE, Work, insist};

/// How many held groups an operator looks at.
const HELD_GROUPS: u32 = 50;

/// Returns the letters of a queue.
pub(crate) fn letters_of(queue: &str) -> LetterFilter {
    LetterFilter::new().queue(queue)
}

/// The operations of an operator. Each one is in the history, with its answer.
pub(crate) struct Operations {
    pub(crate) db: Database,
    pub(crate) log: ClientLog,
    pub(crate) operator: Operator,
}

impl Operations {
    pub(crate) fn new(db: &Database, log: ClientLog, name: &str) -> Operations {
        Operations {
            db: db.clone(),
            log,
            operator: Operator::new(name).reason("chaos"),
        }
    }

    fn ask(&self, operation: Operation, ids: &[i64], call: impl FnOnce() -> Result<Vec<i64>>) {
        // The history has its result.
        _ = self.log.call(operation, &[], ids, call);
    }

    pub(crate) fn cancel(&self, id: i64) {
        self.ask(Operation::Cancel, &[id], || {
            let jobs = self.db.admin().jobs();
            Ok(match jobs.cancel(JobId::new(id), &self.operator)? {
                Cancelled::Dead => vec![id],
                // The job runs.
                Cancelled::Asked => vec![-id],
                _ => Vec::new(),
            })
        });
    }

    fn set_priority(&self, id: i64, priority: i16) {
        self.ask(Operation::Priority, &[id], || {
            let this = JobFilter::new().ids([JobId::new(id)]);
            let change = JobChange::SetPriority(priority);
            let jobs = self.db.admin().jobs();
            Ok(numbers(&jobs.change(&this, change, &self.operator)?.ids))
        });
    }

    /// Redrives the letter that holds a group, discards it, or releases the group.
    fn with_held_group(&self, queue: &str, random: &mut fastrand::Rng) {
        let held = Queue::new(&self.db, queue).and_then(|queue| queue.held_groups(HELD_GROUPS));
        let Ok(held) = held else { return };
        let Some(group) = random.choice(&held) else {
            return;
        };
        let letter = LetterFilter::new().ids([group.letter]);
        match random.u32(0..4) {
            0..=1 => self.redrive(&letter),
            2 => self.discard(&letter),
            _ => self.release(queue, &group.group),
        }
    }
}

/// Operations, each with its parameters, its name in the history, and its answer.
macro_rules! operations {
    ($db:ident, $operator:ident: $($(#[$doc:meta])* $visible:vis $name:ident($($of:ident: $type:ty),*) $operation:ident
       => $answer:expr;)+) => {
        impl Operations {
            $($(#[$doc])* $visible fn $name(&self, $($of: $type),*) {
                let ($db, $operator) = (&self.db, &self.operator);
                self.ask(Operation::$operation, &[], || Ok($answer));
            })+
        }
    };
}

operations! { db, operator:
    pub(crate) redrive(letters: &LetterFilter) Redrive => numbers(&db.dlq().redrive(letters, operator)?.redriven);
    pub(crate) discard(letters: &LetterFilter) Discard => numbers(&db.dlq().discard(letters, operator)?.ids);
    change_jobs(jobs: &JobFilter, change: JobChange) ChangeJobs =>
        numbers(&db.admin().jobs().change(jobs, change, operator)?.ids);
    edit_jobs(jobs: &JobFilter, merge: &str) ChangeJobs =>
        numbers(&db.admin().jobs().edit(jobs, &Edit::merge(merge)?, operator)?.edited);
    reopen(letters: &LetterFilter) Reopen => numbers(&db.dlq().reopen(letters, operator)?.ids);
    edit(letters: &LetterFilter, merge: &str) Edit =>
        numbers(&db.dlq().edit(letters, &Edit::merge(merge)?, operator)?.edited);
    undo(letters: &LetterFilter) Undo => numbers(&db.dlq().restore_versions(letters, None, operator)?.edited);
    run(letters: &LetterFilter) Run => drive(db, letters, operator)?;
    deliver(letters: &LetterFilter) Deliver => {
        db.dlq().deliver(letters, &Outside, operator)?;
        Vec::new()
    };
    pub(crate) restore(letters: &LetterFilter) Restore => numbers(&db.dlq().restore(letters, operator)?.letters);
    delete_archived(letters: &LetterFilter) DeleteArchived => counted(db.dlq().delete_archived(letters, operator)?);
    pub(crate) prune(older_than: Duration) Prune => counted(db.dlq().prune(older_than, operator)?);
    /// Applies the retention rules once.
    pub(crate) apply_retention() Retention => {
        keeping::set_retention(db, operator)?;
        counted(db.dlq().retention().apply(operator)?)
    };
    /// Erases a job or letter.
    pub(crate) erase(id: i64) Erase => {
        let erased = db.dlq().erase(&LetterFilter::new().ids([JobId::new(id)]), operator)?;
        counted(erased.jobs + erased.letters)
    };
    /// Pauses a queue.
    pub(crate) pause(queue: &str, end: PauseEnd) Pause => {
        Queue::new(db, queue)?.pause(end, operator)?;
        vec![1]
    };
    pub(crate) resume(queue: &str) Resume => counted(Queue::new(db, queue)?.resume(operator)?.into());
    /// Releases a group. Records the letter that held it.
    pub(crate) release(queue: &str, group: &str) Release => {
        let letter = Queue::new(db, queue)?.release_group(group, operator)?;
        letter.iter().map(|letter| letter.get()).collect()
    };
    open_breaker(lasting: Duration) OpenBreaker => {
        db.admin().open_breaker(&format!("queue:{QUEUE}"), Some(lasting), operator)?;
        vec![1]
    };
    close_breaker() CloseBreaker => counted(db.admin().close_breaker(GATEWAY, operator)?.into());
    /// Triggers a schedule. Records the job.
    pub(crate) trigger(schedule: &str) Trigger => match db.schedules().trigger(schedule, operator)? {
        Triggered::New(job) | Triggered::Live(job) => vec![job.get()],
        Triggered::Redriven(_) | Triggered::NotFound => Vec::new(),
    };
    /// Pauses a schedule, or resumes it.
    pub(crate) pause_schedule(schedule: &str, is_paused: bool) PauseSchedule => {
        match is_paused {
            true => db.schedules().pause(schedule, operator).map(|_| ())?,
            false => db.schedules().resume(schedule, operator).map(|_| ())?,
        }
        Vec::new()
    };
}

pub(super) fn run(options: &Options, stop: &AtomicBool) {
    let log = options.log();
    let Some(db) = insist(stop, || options.open()) else {
        return;
    };
    let mut random = options.random();
    let ops = Operations::new(&db, log, &options.name);
    insist(stop, || standing::set(&db, &ops.operator));
    while !stop.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(random.u64(20..150)));
        operate(options, &ops, &mut random);
    }
}

/// Carries out one of the operations, by their weights.
fn operate(options: &Options, ops: &Operations, random: &mut fastrand::Rng) {
    let letters = letters_of(QUEUE);
    let some = letters.clone().limit(random.u64(1..60));
    match random.u32(0..66) {
        0..=5 => ops.redrive(&some),
        6..=7 => ops.reopen(&some),
        8..=9 => ops.discard(&letters.limit(2)),
        10..=13 => ops.run(&some),
        14..=15 => ops.edit(&some, &format!(r#"{{"edited": {}}}"#, random.u32(0..1000))),
        16..=21 => {
            // With a backlog, none of the latest live jobs runs.
            let state = if random.bool() {
                ""
            } else {
                "WHERE state = 'leased'"
            };
            if let Some(id) = recent_job(options, state, random) {
                ops.cancel(id);
            }
        }
        22..=26 => {
            if let Some(id) = recent_job(options, "", random) {
                ops.set_priority(id, random.i16(-3..=3));
            }
        }
        // The pause ends without the operator, whose process may be killed.
        27 => {
            let end = PauseEnd::After(Duration::from_millis(random.u64(50..1500)));
            ops.pause(QUEUE, end);
        }
        28 => ops.resume(QUEUE),
        29..=30 => ops.deliver(&letters.limit(random.u64(1..4))),
        31 => ops.open_breaker(Duration::from_millis(random.u64(50..1500))),
        32..=43 => operate_groups(ops, random),
        44..=45 => {
            let name = SCHEDULES[random.usize(0..SCHEDULES.len())].name;
            match random.u32(0..4) {
                0 => ops.trigger(name),
                other => ops.pause_schedule(name, other == 1),
            }
        }
        46..=49 => change_waiting(ops, random),
        50..=53 => ops.apply_retention(),
        54..=56 => ops.restore(&some),
        57 => ops.delete_archived(&letters.limit(1)),
        58..=59 => ops.undo(&some),
        60..=63 => ops.close_breaker(),
        64 => {
            if let Some(id) = recent_job(options, "", random) {
                ops.erase(id);
            }
        }
        _ => ops.prune(PRUNE_AGE),
    }
}

/// Redrives or discards letters of one of the other queues, releases a group, or pauses a queue.
fn operate_groups(ops: &Operations, random: &mut fastrand::Rng) {
    let queue = OTHER_QUEUES[random.usize(0..OTHER_QUEUES.len())];
    let letters = letters_of(queue);
    match random.u32(0..25) {
        // Longer than three renewals, after which each worker knows of it.
        0 => {
            let end = PauseEnd::After(Duration::from_millis(random.u64(3000..7000)));
            ops.pause(queue, end);
        }
        1..=9 => ops.redrive(&letters.limit(random.u64(1..4))),
        10..=12 => ops.redrive(&letters.limit(random.u64(10..100))),
        13..=15 => ops.run(&letters.limit(random.u64(1..60))),
        16..=18 => ops.discard(&letters.limit(1)),
        _ => {
            let queue = HOLDING_QUEUES[random.usize(0..HOLDING_QUEUES.len())];
            ops.with_held_group(queue, random);
        }
    }
}

/// Changes some waiting jobs of a queue.
fn change_waiting(ops: &Operations, random: &mut fastrand::Rng) {
    let queue = match random.bool() {
        true => QUEUE,
        false => OTHER_QUEUES[random.usize(0..OTHER_QUEUES.len())],
    };
    let all = JobFilter::new().queue(queue);
    let jobs = match random.u32(0..3) {
        0 => all.kind(Work::KIND),
        1 => all.priority_from(random.i16(-2..=1)),
        _ => all,
    };
    match random.u32(0..8) {
        0..=2 => ops.change_jobs(&jobs.limit(random.u64(1..20)), JobChange::RunNow),
        3..=4 => {
            let change = JobChange::SetPriority(random.i16(-3..=3));
            ops.change_jobs(&jobs.limit(random.u64(1..20)), change);
        }
        5..=6 => {
            let merge = format!(r#"{{"edited": {}}}"#, random.u32(0..1000));
            ops.edit_jobs(&jobs.limit(random.u64(1..5)), &merge);
        }
        _ => ops.change_jobs(&jobs.limit(random.u64(1..3)), JobChange::Cancel),
    }
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

/// Starts a redrive run of these letters and drives it to its end.
fn drive(db: &Database, letters: &LetterFilter, operator: &Operator) -> Result<Vec<i64>> {
    let options = RunOptions::new().unthrottled().tolerate(100);
    let Some((_, mut driver)) = db.dlq().runs().start(letters, &options, operator)? else {
        return Ok(Vec::new());
    };
    while let DriveStatus::Running(wait) = driver.step()? {
        thread::sleep(wait.min(Duration::from_millis(100)));
    }
    Ok(Vec::new())
}

/// Returns one of the 20 latest live jobs, or of those in a state.
fn recent_job(options: &Options, state: &str, random: &mut fastrand::Rng) -> Option<i64> {
    let query =
        format!("SELECT id FROM redrive.live_jobs {state} ORDER BY id DESC LIMIT 1 OFFSET $1");
    let url = format!("{}&connect_timeout=2", options.named_url());
    let mut client = Client::connect(&url, NoTls).ok()?;
    // Unprepared, because a pooler may be in between.
    let row = client.query_typed_opt(&query, &[(&random.i64(0..20), Type::INT8)]);
    Some(row.ok()??.get(0))
}

fn numbers(ids: &[JobId]) -> Vec<i64> {
    ids.iter().map(|id| id.get()).collect()
}

/// Returns a number for the history, which has ids of jobs elsewhere.
fn counted(count: u64) -> Vec<i64> {
    Vec::from_iter(i64::try_from(count).ok().filter(|count| *count > 0))
}
