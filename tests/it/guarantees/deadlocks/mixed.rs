//! Every operation at once on the same few rows.

use redrive_tests::prelude::*;

use super::{LETTERS, char_of, database, deadlocks, foreign};

/// The number of threads, and of operations of each.
const CROWD: usize = 16;

const ROUNDS: usize = 20;

const SOME: usize = 60;

const KEYS: usize = 24;

/// The results of the operations on the letters.
#[derive(Debug, Default)]
struct Results {
    /// How often each letter was redriven, as far as reported by letter.
    redriven: BTreeMap<JobId, u32>,
    /// The letters redriven by runs.
    by_runs: u64,
    /// How often each letter was discarded.
    discarded: BTreeMap<JobId, u32>,
    /// How often a capture reopened each letter.
    reopened: BTreeMap<JobId, u32>,
    troubles: Vec<String>,
}

/// One of the threads.
struct Hand {
    url: String,
    db: Database,
    client: Client,
    letters: Vec<JobId>,
    random: fastrand::Rng,
    results: Arc<Mutex<Results>>,
}

impl Hand {
    /// Some of the letters, in any order.
    fn some(&mut self, most: usize) -> Vec<JobId> {
        let mut all = self.letters.clone();
        self.random.shuffle(&mut all);
        all.truncate(most);
        all
    }

    fn queue(&self) -> Queue {
        Queue::new(&self.db, "orders").expect("a valid name")
    }

    /// Runs one operation.
    fn step(&mut self) -> redrive::Result<()> {
        let operator = Operator::new("the crowd").reason("a test");
        let force = RedriveOptions::new().force();
        match self.random.u8(..13) {
            0 => {
                let these = LetterFilter::new().ids(self.some(SOME));
                let done = self.db.dlq().redrive_with(&these, &force, &operator)?;
                let mut results = self.results.lock().expect("no panic");
                for id in done.redriven {
                    *results.redriven.entry(id).or_default() += 1;
                }
            }
            1 => self.run(&force, &operator)?,
            2 => {
                let these = LetterFilter::new().ids(self.some(2));
                let done = self.db.dlq().discard(&these, &operator)?;
                let mut results = self.results.lock().expect("no panic");
                for id in done {
                    *results.discarded.entry(id).or_default() += 1;
                }
            }
            3 => {
                let number = self.random.u32(..);
                let edit = Edit::merge(&format!(r#"{{"edit": {number}}}"#))?;
                let these = LetterFilter::new().ids(self.some(SOME));
                self.db.dlq().edit(&these, &edit, &operator)?;
            }
            4 => {
                let mut again: Vec<ForeignFailure> = (0..LETTERS).map(foreign).collect();
                self.random.shuffle(&mut again);
                let captured = self.db.dlq().capture_many(again.iter().take(SOME))?;
                let mut results = self.results.lock().expect("no panic");
                for outcome in captured {
                    if let CaptureOutcome::Reopened(id) = outcome {
                        *results.reopened.entry(id).or_default() += 1;
                    }
                }
            }
            5 => {
                for group in self.db.dlq().groups().list(&GroupFilter::new().limit(20))? {
                    let states = [
                        GroupState::Acknowledged,
                        GroupState::Resolved,
                        GroupState::Open,
                    ];
                    let state = states[self.random.usize(..states.len())];
                    self.db
                        .dlq()
                        .groups()
                        .set_state(group.id, state, &operator)?;
                }
            }
            6 => {
                for id in self.some(6) {
                    self.db.admin().cancel(id)?;
                }
            }
            7 => {
                for id in self.some(10) {
                    self.db.admin().set_priority(id, self.random.i16(-9..9))?;
                }
            }
            8 => self.expire_leases(),
            9 => {
                self.db.dlq().retention().apply(&operator)?;
                self.db
                    .dlq()
                    .prune(Duration::from_hours(24), &Operator::default())?;
            }
            10 => {
                let mut jobs: Vec<NewJob> = (0..KEYS)
                    .map(|key| new_order(1000).unique(key.to_string()))
                    .collect();
                self.random.shuffle(&mut jobs);
                jobs.truncate(KEYS / 2);
                self.queue().enqueue_jobs(&jobs)?;
            }
            11 => {
                let fold = "SELECT redrive.fold_letters(), redrive.fold_runs(), redrive.fold_metrics(), \
                            redrive.turn_ring(8192, 100)";
                let folded = self.client.batch_execute(fold);
                folded.unwrap_or_else(|error| self.trouble(&format!("{error:?}")));
            }
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
        let these = LetterFilter::new().ids(self.some(SOME));
        let options = RunOptions::new()
            .letters(force.clone())
            .rate(Rate::Unthrottled);
        let Some((created, mut driver)) = self.db.dlq().runs().start(&these, &options, operator)?
        else {
            return Ok(());
        };
        // Until every letter was tried; a locked one would be retried after a second.
        loop {
            let step = driver.step()?;
            if step.status != DriveStatus::Running || step.tried == step.total {
                break;
            }
        }
        self.db.dlq().runs().cancel(created.id, operator)?;
        let run = self.db.dlq().runs().get(created.id)?.expect("the run");
        self.results.lock().expect("no panic").by_runs += run.sent;
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

    fn trouble(&self, what: &str) {
        let mut results = self.results.lock().expect("no panic");
        results.troubles.push(what.to_owned());
    }
}

/// A worker whose jobs mostly die again, with one of a few errors.
fn jobs(queue: &Queue) -> WorkerBuilder {
    worker(queue)
        .slots(4)
        .lease(Duration::from_secs(2))
        .handle(|job: &Job<Order>| {
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
    let letters: Vec<JobId> = db
        .dlq()
        .capture_many(&all)
        .unwrap()
        .into_iter()
        .map(CaptureOutcome::id)
        .collect();
    for state in [LetterState::Recovered, LetterState::Discarded] {
        // Long enough to overlap with most operations.
        let rule = RetentionRule::archive(state, Duration::from_secs(2));
        db.retains(&rule);
    }
    let queue = Queue::new(&db, "orders").unwrap();
    let others = test.queue("orders");
    let workers = [jobs(&queue), jobs(&others)].map(Begin::started);

    let results: Arc<Mutex<Results>> = Arc::default();
    let start = Arc::new(Barrier::new(CROWD));
    let hands: Vec<Database> = (0..2).map(|_| test.open()).collect();
    let crowd: Vec<_> = (0..CROWD)
        .map(|number| {
            let mut hand = Hand {
                url: test.url().to_owned(),
                db: hands[number % hands.len()].clone(),
                client: test.client(),
                letters: letters.clone(),
                random: fastrand::Rng::with_seed(number as u64),
                results: Arc::clone(&results),
            };
            let start = Arc::clone(&start);
            thread::spawn(move || {
                start.wait();
                for _ in 0..ROUNDS {
                    match hand.step() {
                        // On a busy machine. The server finds a deadlock before a lock times out.
                        Err(error) if error.sql_state() == Some(&SqlState::LOCK_NOT_AVAILABLE) => {}
                        Err(error) => hand.trouble(&format!("{error:?}")),
                        Ok(()) => {}
                    }
                }
            })
        })
        .collect();
    for one in crowd {
        one.join().expect("one of the crowd");
    }
    let results = Arc::try_unwrap(results).expect("they are gone");
    let results = results.into_inner().expect("no panic");
    assert!(
        results.troubles.is_empty(),
        "\n{}\n",
        results.troubles.join("\n")
    );
    drained(&queue);
    let counts = workers.map(stop).map(|stopped| stopped.stats);
    assert!(counts.iter().any(|counts| counts.dead > 0), "{counts:?}");
    each_has_one_end(&mut test.client(), &letters, &results);
    drop((db, queue, others, hands));
    assert_eq!(deadlocks(&test), 0);
}

/// Fails unless each letter is in one state and was redriven, discarded and reopened as often as
/// reported.
#[track_caller]
fn each_has_one_end(client: &mut Client, letters: &[JobId], results: &Results) {
    let ends = "SELECT l.id, l.state, l.generation FROM redrive.dead_letters l \
                UNION ALL \
                SELECT a.id, a.letter ->> 'state', (a.letter ->> 'generation')::integer \
                FROM redrive.archived_letters a";
    let mut found: BTreeMap<JobId, Vec<(String, u32)>> = BTreeMap::new();
    for row in client.query(ends, &[]).unwrap() {
        let (id, state, generation): (i64, String, i32) = (row.get(0), row.get(1), row.get(2));
        let end = (state, generation.unsigned_abs());
        found.entry(JobId::new(id)).or_default().push(end);
    }
    let mut sent = 0;
    for id in letters {
        let [(state, generation)] = &found[id][..] else {
            panic!("letter {id} is in {:?}", found[id])
        };
        let discarded = results.discarded.get(id).copied().unwrap_or(0);
        let reopened = results.reopened.get(id).copied().unwrap_or(0);
        let is_discarded = u32::from(state == "discarded");
        assert!(
            (is_discarded..=is_discarded + reopened).contains(&discarded),
            "{id} is {state}: discarded {discarded} times, reopened {reopened} times"
        );
        // A letter learns of its generation when its job dies or its failure is captured again.
        // A capture after a discard begins a generation without a redrive.
        let times = generation + u32::from(state == "recovered") - (discarded - is_discarded);
        sent += u64::from(times);
        assert!(
            times >= results.redriven.get(id).copied().unwrap_or(0),
            "{id}"
        );
        assert_ne!(state, "redriving", "{id}");
    }
    let directly: u64 = results
        .redriven
        .values()
        .map(|times| u64::from(*times))
        .sum();
    assert_eq!(
        sent,
        directly + results.by_runs,
        "each was redriven as often as reported"
    );
}
