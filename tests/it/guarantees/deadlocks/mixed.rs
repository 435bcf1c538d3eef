//! Every operation at once on the same few rows. What each of them changes is checked by chaos.

use redrive_tests::prelude::*;

use super::{LETTERS, char_of, database, deadlocks, foreign};

/// The number of threads, and of operations of each.
const CROWD: usize = 16;

const ROUNDS: usize = 20;

const SOME: usize = 60;

const KEYS: usize = 24;

/// One of the threads.
struct Hand {
    url: String,
    db: Database,
    client: Client,
    letters: Vec<JobId>,
    random: fastrand::Rng,
}

impl Hand {
    /// Some of the letters, in any order.
    fn any(&mut self, most: usize) -> Vec<JobId> {
        let mut all = self.letters.clone();
        self.random.shuffle(&mut all);
        all.truncate(most);
        all
    }

    fn some(&mut self, most: usize) -> LetterFilter {
        LetterFilter::new().ids(self.any(most))
    }

    /// Runs one operation.
    fn step(&mut self) -> redrive::Result<()> {
        let operator = Operator::new("the crowd").reason("a test");
        let db = self.db.clone();
        let (dlq, admin) = (db.dlq(), db.admin());
        let force = RedriveOptions::new().force();
        match self.random.u8(..13) {
            0 => drop(dlq.redrive_with(&self.some(SOME), &force, &operator)?),
            1 => self.run(&force, &operator)?,
            2 => drop(dlq.discard(&self.some(2), &operator)?),
            3 => {
                let number = self.random.u32(..);
                let edit = Edit::merge(&format!(r#"{{"edit": {number}}}"#))?;
                dlq.edit(&self.some(SOME), &edit, &operator)?;
            }
            4 => {
                let mut again: Vec<ForeignFailure> = (0..LETTERS).map(foreign).collect();
                self.random.shuffle(&mut again);
                drop(dlq.capture_many(again.iter().take(SOME))?);
            }
            5 => {
                for group in dlq.groups().list(&GroupFilter::new().limit(20))? {
                    let states = [
                        GroupState::Acknowledged,
                        GroupState::Resolved,
                        GroupState::Open,
                    ];
                    let state = states[self.random.usize(..states.len())];
                    dlq.groups().set_state(group.id, state, &operator)?;
                }
            }
            6 => {
                for id in self.any(6) {
                    admin.jobs().cancel(id, &operator)?;
                }
            }
            7 => {
                for id in self.any(10) {
                    let change = JobChange::SetPriority(self.random.i16(-9..9));
                    let this = JobFilter::new().ids([id]);
                    admin.jobs().change(&this, change, &operator)?;
                }
            }
            8 => self.expire_leases(),
            9 => {
                dlq.retention().apply(&operator)?;
                dlq.prune(DAY, &operator)?;
            }
            10 => {
                let jobs = (0..KEYS).map(|key| new_order(1000).unique(key.to_string()));
                let mut jobs: Vec<NewJob> = jobs.collect();
                self.random.shuffle(&mut jobs);
                Queue::new(&db, "orders")?.enqueue_jobs(&jobs[..KEYS / 2])?;
            }
            11 => self.client.sql(
                "SELECT redrive.fold_letters(), redrive.fold_runs(), redrive.fold_metrics(), \
                 redrive.turn_ring(8192, 100)",
            ),
            _ => {
                // A worker that stops early releases its jobs.
                let queue = Queue::new(&redrive::connect(&self.url)?, "orders")?;
                // Its lease is so short that a busy server misses the deadline of the first renewal.
                eventually("a worker to start and stop", || {
                    jobs(&queue).start()?.stop(Duration::ZERO)
                });
            }
        }
        Ok(())
    }

    /// Drives a run over some of the letters to its end.
    fn run(&mut self, force: &RedriveOptions, operator: &Operator) -> redrive::Result<()> {
        let these = self.some(SOME);
        let options = RunOptions::new().letters(force.clone());
        let options = options.unthrottled();
        let runs = self.db.dlq().runs();
        let Some((_, mut driver)) = runs.start(&these, &options, operator)? else {
            return Ok(());
        };
        while matches!(driver.step()?, DriveStatus::Running(_)) {}
        Ok(())
    }

    /// Expires the leases of all workers.
    fn expire_leases(&mut self) {
        let mut transaction = self.client.transaction().expect("begin");
        // All sessions lock the workers in the same order.
        let age = "WITH all_workers AS MATERIALIZED ( \
                       SELECT worker_id FROM redrive.workers ORDER BY worker_id FOR UPDATE) \
                   UPDATE redrive.workers w SET expires_at = clock_timestamp() - interval '1 second' \
                   FROM all_workers a WHERE a.worker_id = w.worker_id";
        transaction.change(age, &[]);
        reap(&mut transaction);
        transaction.commit().expect("commit");
    }
}

/// A worker whose jobs mostly die again, with one of a few errors.
fn jobs(queue: &Queue) -> WorkerBuilder {
    lively(queue).slots(4).handle(|job: &Job<Order>| {
        let number = job.payload().number;
        let run = number + i64::from(job.generation()) * 31 + i64::from(job.attempt());
        match run % 9 {
            0 => Ok(()),
            1 => Err(Failure::retry("again")),
            _ => Err(Failure::reject(format!("failure of kind {}", char_of(run)))
                .class(format!("Class{}", run % 3))),
        }
    })
}

#[test]
fn sixteen_threads_of_mixed_operations_never_deadlock() {
    let test = database();
    let db = test.open();
    let all: Vec<ForeignFailure> = (0..LETTERS).map(foreign).collect();
    let captured = db.dlq().capture_many(&all).unwrap().into_iter();
    let letters: Vec<JobId> = captured.map(CaptureOutcome::id).collect();
    for state in [LetterState::Recovered, LetterState::Discarded] {
        // Long enough to overlap with most operations.
        db.retains(&RetentionRule::archive(state, Duration::from_secs(2)));
    }
    let queue = Queue::new(&db, "orders").unwrap();
    let others = test.queue("orders");
    let workers = [jobs(&queue), jobs(&others)].map(Begin::started);
    let handles = [test.open(), test.open()];
    let hand = |number: usize| Hand {
        url: test.url().to_owned(),
        db: handles[number % 2].clone(),
        client: test.client(),
        letters: letters.clone(),
        random: fastrand::Rng::with_seed(number as u64),
    };
    let steps = |mut hand: Hand| -> Vec<String> {
        let failures = (0..ROUNDS).filter_map(|_| hand.step().err());
        // On a busy machine. The server finds a deadlock before a lock times out.
        let other = failures.filter(|it| it.sql_state() != Some(&SqlState::LOCK_NOT_AVAILABLE));
        other.map(|error| format!("{error:?}")).collect()
    };
    let troubles = at_once(CROWD, hand, steps).concat();
    assert!(troubles.is_empty(), "\n{}\n", troubles.join("\n"));
    drained(&queue);
    let counts = workers.map(stop).map(|stopped| stopped.stats);
    assert!(counts.iter().any(|counts| counts.dead > 0), "{counts:?}");
    groups_add_up(&db);
    drop((db, queue, others, handles));
    assert_eq!(deadlocks(&test), 0);
}
