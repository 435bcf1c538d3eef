//! Poison: one job that kills whoever runs it, among thousands that do no harm.

use std::time::{Duration, Instant};

use redrive::{LetterState, Letters, NewJob, Pooler, Queue, Reason};

use crate::Programs;
use crate::actor::{ATTEMPTS, Plan, QUEUE, Work};
use crate::checker;
use crate::record::{Said, Verb};
use crate::report;
use crate::server::Disk;
use crate::stage::Stage;
use crate::troupe::Part;

/// How many do no harm.
const INNOCENTS: i64 = 10_000;
/// How many workers, which a supervisor starts anew.
const WORKERS: usize = 4;

/// Whether exactly the killer becomes a letter, and everybody else is done.
pub(crate) fn isolate(programs: &Programs) -> bool {
    let begin = Instant::now();
    let mut stage = Stage::set_up(programs, Pooler::Session, Disk::Plain, 1, &[]);
    let log = stage.log("poisoner");
    let db =
        redrive::connect(&format!("{}&application_name=poisoner", stage.url())).expect("connect");
    let queue = Queue::new(&db, QUEUE).expect("a good name");
    let killer = INNOCENTS / 2;
    let work = |key: i64| {
        let plan = if key == killer {
            Plan::Abort
        } else {
            Plan::Done
        };
        let work = Work {
            key,
            plan,
            ms: u64::from(key % 4 == 0),
            times: 0,
        };
        NewJob::new(&work).map(|job| job.max_attempts(ATTEMPTS))
    };
    let keys: Vec<i64> = (0..=INNOCENTS).collect();
    let jobs: redrive::Result<Vec<NewJob>> = keys.iter().map(|key| work(*key)).collect();
    let op = log.asked(Verb::Enqueue, &keys, &[]);
    let ids = queue.add_many(jobs.expect("jobs")).expect("enqueue");
    log.say(
        op,
        Said::Ok {
            ids: ids.iter().map(|id| id.get()).collect(),
        },
    );
    for _ in 0..WORKERS {
        stage.add(Part::worker());
    }
    let is_drained = stage.pass(Duration::from_mins(3), |_| {
        queue.is_drained().unwrap_or(false)
    });
    let letters = db
        .letters(&Letters::all().state(LetterState::Open).limit(100))
        .expect("list letters");
    let wound = stage.wind_up(Duration::from_secs(30));
    let findings = checker::check(&wound.records);
    let (killers, innocents) = (
        letters
            .iter()
            .filter(|letter| letter.id == ids[5000] && letter.reason == Reason::WorkerLost)
            .count(),
        letters
            .iter()
            .filter(|letter| letter.id != ids[5000])
            .count(),
    );
    println!(
        "poison: {:.0} s, drained: {is_drained}, letters of the killer: {killers}, of others: {innocents}\n    {}",
        begin.elapsed().as_secs_f64(),
        report::told(&wound.records, &findings)
    );
    is_drained
        && (killers, innocents) == (1, 0)
        && findings.tally.done == INNOCENTS
        && findings.violations.is_empty()
}
