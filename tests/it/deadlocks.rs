//! Deadlocks: whoever locks several rows does so in one order, so that none waits for another in a
//! circle.

use std::collections::BTreeMap;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use postgres::Client;
use redrive::{
    Act, Captured, Database, Driven, Edit, Failure, GroupState, Groups, Job, JobId, LetterState,
    Letters, NewJob, Queue, Rate, RedriveOptions, Retention, RunOptions, Unique,
};
use redrive_tests::{
    Gate, Order, SOON, TestDatabase, drained, letters, letters_in, reap, stop, wait_until, worker,
};

/// How soon the server looks whether those who wait do so in a circle. Longer than the waits that are
/// given up on purpose.
const LOOK: &str = "150ms";

/// A database whose server tells of a deadlock soon.
fn database() -> TestDatabase {
    let test = TestDatabase::migrated();
    test.client()
        .batch_execute(&format!(
            "ALTER DATABASE {} SET deadlock_timeout = '{LOOK}'",
            test.name()
        ))
        .unwrap();
    test
}

/// How many deadlocks the server has broken in this database; to be asked when all others are gone.
fn deadlocks(test: &TestDatabase) -> i64 {
    let mut client = test.client();
    let others = "SELECT count(*) FROM pg_stat_activity \
                  WHERE datname = current_database() AND pid <> pg_backend_pid()";
    // A session tells of what it met at its end, if not before.
    wait_until("the others to be gone", SOON, || {
        client.query_one(others, &[]).unwrap().get::<_, i64>(0) == 0
    });
    client
        .query_one(
            "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()",
            &[],
        )
        .unwrap()
        .get(0)
}

/// Waits until so many sessions wait for a lock of somebody's.
fn wait_until_waiting(client: &mut Client, sessions: i64) {
    let waiting = "SELECT count(*) FROM pg_stat_activity \
                   WHERE datname = current_database() AND wait_event_type = 'Lock'";
    wait_until("somebody to wait for a lock", SOON, || {
        client.query_one(waiting, &[]).unwrap().get::<_, i64>(0) == sessions
    });
}

fn order(number: i64) -> NewJob {
    NewJob::new(&Order { number }).expect("a job")
}

/// Runs the jobs of a queue to their end, each as it is told, when the gate is open.
fn at_the_gate(queue: &Queue, gate: &Gate, end: fn(i64) -> Result<(), Failure>) -> redrive::Worker {
    let gate = gate.clone();
    worker(queue)
        .slots(2)
        .handle(move |job: &Job<Order>| {
            gate.pass();
            end(job.payload().number)
        })
        .start()
        .unwrap()
}

#[test]
fn who_ends_unique_jobs_and_who_enqueues_their_keys_take_them_in_one_order() {
    let test = database();
    let queue = test.queue("orders");
    // The other way round than their ids.
    for key in ["b", "a"] {
        queue.add_unique(order(1).unique(key)).unwrap();
    }
    let gate = Gate::new();
    let worker = at_the_gate(&queue, &gate, |_| Ok(()));
    gate.wait_for(2);
    let (mut client, mut watching) = (test.client(), test.client());
    let mut transaction = client.transaction().unwrap();
    let mut add = |key: &str| queue.add_unique_in(&mut transaction, order(2).unique(key));
    assert!(matches!(add("a"), Ok(Unique::Existing(_))));
    gate.open();
    wait_until_waiting(&mut watching, 1);
    add("b").expect("nobody waits in a circle");
    transaction.commit().unwrap();
    drained(&queue);
    let counts = stop(worker).counts;
    assert!(counts.done >= 2 && counts.lost == 0, "{counts:?}");
    drop((queue, client, watching));
    assert_eq!(deadlocks(&test), 0);
}

/// Two letters, redriven, whose jobs are about to end: the first by dying again, the second well.
fn redriven(test: &TestDatabase, gate: &Gate) -> (Queue, Vec<JobId>, redrive::Worker) {
    let queue = test.queue("orders");
    let ids = letters(&queue, 2);
    let db = queue.database();
    db.redrive(&Letters::queue("orders"), &Act::new()).unwrap();
    let worker = at_the_gate(&queue, gate, |number| match number {
        1 => Err(Failure::reject("still broken")),
        _ => Ok(()),
    });
    gate.wait_for(2);
    (queue, ids, worker)
}

#[test]
fn who_settles_redriven_jobs_takes_their_letters_by_their_ids() {
    let test = database();
    let gate = Gate::new();
    let (queue, ids, worker) = redriven(&test, &gate);
    let (mut client, mut watching) = (test.client(), test.client());
    let mut transaction = client.transaction().unwrap();
    let lock = "SELECT FROM redrive.dead_letters WHERE id = $1 FOR UPDATE";
    transaction.execute(lock, &[&ids[0].get()]).unwrap();
    gate.open();
    wait_until_waiting(&mut watching, 1);
    transaction
        .execute(lock, &[&ids[1].get()])
        .expect("nobody waits in a circle");
    transaction.commit().unwrap();
    drained(&queue);
    let counts = stop(worker).counts;
    assert_eq!((counts.done, counts.dead, counts.lost), (1, 1, 0));
    assert_eq!(letters_in(queue.database(), "orders", LetterState::Open), 1);
    drop((queue, client, watching));
    assert_eq!(deadlocks(&test), 0);
}

#[test]
fn who_captures_letters_again_takes_them_by_their_ids() {
    let test = database();
    let db = test.open();
    // The other way round than their ids.
    let foreign = |position: &str| Captured::new("kafka:orders", position, "orders", "order", "{}");
    let both = ["0/2", "0/1"].map(foreign);
    for captured in &both {
        db.capture(captured).unwrap();
    }
    let (mut client, mut watching) = (test.client(), test.client());
    let mut transaction = client.transaction().unwrap();
    let lock = "SELECT FROM redrive.dead_letters WHERE \"position\" = $1 FOR UPDATE";
    transaction.execute(lock, &[&"0/2"]).unwrap();
    let again = thread::spawn({
        let db = db.clone();
        move || db.capture_many(&both).map(|captures| captures.len())
    });
    wait_until_waiting(&mut watching, 1);
    transaction
        .execute(lock, &[&"0/1"])
        .expect("nobody waits in a circle");
    transaction.commit().unwrap();
    assert_eq!(again.join().expect("who captures").unwrap(), 2);
    drop((db, client, watching));
    assert_eq!(deadlocks(&test), 0);
}

/// From here on the first change of a letter is answered as the victim of a deadlock is; later ones go
/// well.
fn make_a_victim(test: &TestDatabase) {
    test.client()
        .batch_execute(
            "CREATE SEQUENCE public.victims; \
             CREATE FUNCTION public.fall() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN \
                 IF nextval('public.victims') = 1 THEN RAISE EXCEPTION USING ERRCODE = '40P01'; END IF; \
                 RETURN NEW; END $$; \
             CREATE TRIGGER fall BEFORE INSERT OR UPDATE ON redrive.dead_letters \
                 FOR EACH ROW EXECUTE FUNCTION public.fall()",
        )
        .unwrap();
}

/// How often somebody came to change a letter since.
fn tries(test: &TestDatabase) -> i64 {
    let tries = "SELECT last_value FROM public.victims";
    test.client().query_one(tries, &[]).unwrap().get(0)
}

/// A deadlock with others than redrive cannot be ruled out: the worker whose verdicts are the victim
/// writes them again, and nothing is charged or lost.
#[test]
fn a_worker_that_is_the_victim_of_a_deadlock_settles_again() {
    let test = database();
    let gate = Gate::new();
    let (queue, _, worker) = redriven(&test, &gate);
    make_a_victim(&test);
    gate.open();
    drained(&queue);
    let counts = stop(worker).counts;
    assert_eq!((counts.done, counts.dead, counts.lost), (1, 1, 0));
    assert!(tries(&test) > 1, "it was a victim, and tried again");
}

/// Two who capture new failures of two kinds, in two orders, may make their groups in a circle.
#[test]
fn a_capture_that_is_the_victim_of_a_deadlock_is_made_again() {
    let test = database();
    make_a_victim(&test);
    let both = ["0/1", "0/2"].map(|at| Captured::new("kafka:orders", at, "orders", "order", "{}"));
    let captured = test.open().capture_many(&both).unwrap();
    assert!(
        matches!(
            captured[..],
            [redrive::Capture::New(_), redrive::Capture::New(_)]
        ),
        "{captured:?}"
    );
    assert_eq!(tries(&test), 3);
}

/// Those who act at once, and what each does so many times.
const CROWD: usize = 16;
const ROUNDS: usize = 20;
/// The letters that they act on, and how many at a time.
const LETTERS: i64 = 160;
const SOME: usize = 60;
const KEYS: usize = 24;

/// What came of what was done to the letters.
#[derive(Debug, Default)]
struct Told {
    /// How often each was sent back, as far as that was told letter by letter.
    redriven: BTreeMap<JobId, u32>,
    /// How many were sent back by runs.
    by_runs: u64,
    discarded: Vec<JobId>,
    troubles: Vec<String>,
}

/// One of the crowd.
struct Hand {
    url: String,
    db: Database,
    client: Client,
    letters: Vec<JobId>,
    random: fastrand::Rng,
    told: Arc<Mutex<Told>>,
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
        Queue::new(&self.db, "orders").expect("a good name")
    }

    /// Does one of the verbs.
    fn act(&mut self) -> redrive::Result<()> {
        let act = Act::new().person("the crowd").why("a test");
        let force = RedriveOptions::new().force();
        match self.random.u8(..13) {
            0 => {
                let these = Letters::ids(self.some(SOME));
                let done = self.db.redrive_with(&these, &force, &act)?;
                let mut told = self.told.lock().expect("no panic");
                for id in done.redriven {
                    *told.redriven.entry(id).or_default() += 1;
                }
            }
            1 => self.run(&force, &act)?,
            2 => {
                let these = Letters::ids(self.some(2));
                let done = self.db.discard(&these, &act)?;
                self.told.lock().expect("no panic").discarded.extend(done);
            }
            3 => {
                let number = self.random.u32(..);
                let edit = Edit::merge(&format!(r#"{{"edit": {number}}}"#))?;
                let these = Letters::ids(self.some(SOME));
                self.db.edit(&these, &edit, &act)?;
            }
            4 => {
                let mut again: Vec<Captured> = (0..LETTERS).map(foreign).collect();
                self.random.shuffle(&mut again);
                self.db.capture_many(again.iter().take(SOME))?;
            }
            5 => {
                for group in self.db.groups(&Groups::all().limit(20))? {
                    let states = [
                        GroupState::Acknowledged,
                        GroupState::Resolved,
                        GroupState::Open,
                    ];
                    let state = states[self.random.usize(..states.len())];
                    self.db.mark_group(group.id, state, &act)?;
                }
            }
            6 => {
                for id in self.some(6) {
                    self.db.cancel(id)?;
                }
            }
            7 => {
                for id in self.some(10) {
                    self.db.set_priority(id, self.random.i16(-9..9))?;
                }
            }
            8 => self.lose_leases(),
            9 => {
                self.db.retain(&act)?;
                self.db.prune(Duration::from_hours(24))?;
            }
            10 => {
                let mut jobs: Vec<NewJob> = (0..KEYS)
                    .map(|key| order(1000).unique(key.to_string()))
                    .collect();
                self.random.shuffle(&mut jobs);
                jobs.truncate(KEYS / 2);
                self.queue().add_many(jobs)?;
            }
            11 => {
                let fold = "SELECT redrive.fold_letters(), redrive.fold_runs(), redrive.fold_metrics(), \
                            redrive.turn_ring(8192, 100)";
                let folded = self.client.batch_execute(fold);
                folded.unwrap_or_else(|error| self.trouble(&format!("{error:?}")));
            }
            _ => {
                // A worker that stops in the middle gives back what it holds.
                let queue = Queue::new(&redrive::connect(&self.url)?, "orders")?;
                jobs(&queue).start()?.stop(Duration::ZERO)?;
            }
        }
        Ok(())
    }

    /// A run over some of the letters, driven until it is at its end.
    fn run(&mut self, force: &RedriveOptions, act: &Act) -> redrive::Result<()> {
        let these = Letters::ids(self.some(SOME));
        let options = RunOptions::new()
            .letters(force.clone())
            .rate(Rate::Unthrottled);
        let Some((created, mut driver)) = self.db.start_run(&these, &options, act)? else {
            return Ok(());
        };
        // Until all of it is tried; what somebody had locked would be tried again in a second.
        loop {
            let step = driver.step()?;
            if step.driven != Driven::Running || !step.wait.is_zero() {
                break;
            }
        }
        self.db.cancel_run(created.id, act)?;
        let run = self.db.run(created.id)?.expect("the run");
        self.told.lock().expect("no panic").by_runs += run.sent;
        Ok(())
    }

    /// Takes the leases of all workers away, as if none had renewed in time.
    fn lose_leases(&mut self) {
        let mut transaction = self.client.transaction().expect("begin");
        // Of those who do this, all have it in one order.
        let age = "WITH all_workers AS MATERIALIZED ( \
                       SELECT worker_id FROM redrive.workers ORDER BY worker_id FOR UPDATE) \
                   UPDATE redrive.workers w SET expires_at = clock_timestamp() - interval '1 second' \
                   FROM all_workers a WHERE a.worker_id = w.worker_id";
        transaction.execute(age, &[]).expect("age the workers");
        reap(&mut transaction);
        transaction.commit().expect("commit");
    }

    fn trouble(&self, what: &str) {
        let mut told = self.told.lock().expect("no panic");
        told.troubles.push(what.to_owned());
    }
}

/// A failure that somebody else had.
fn foreign(number: i64) -> Captured {
    let position = format!("0/{:03}", (number * 37) % LETTERS);
    let payload = format!(r#"{{"number": {number}}}"#);
    Captured::new("kafka:orders", position, "orders", "order", payload).error(
        format!("Class{}", number % 3),
        format!("failure of kind {}", char_of(number)),
    )
}

/// A letter of the alphabet: masks leave it as it is.
fn char_of(number: i64) -> char {
    char::from(b'a' + u8::try_from(number.rem_euclid(7)).expect("small"))
}

/// A worker of the crowd: most jobs die again, of one of some things; some go well.
fn jobs(queue: &Queue) -> redrive::WorkerBuilder {
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
fn sixteen_who_do_everything_at_once_never_wait_in_a_circle() {
    let test = database();
    let db = test.open();
    let all: Vec<Captured> = (0..LETTERS).map(foreign).collect();
    let letters: Vec<JobId> = db
        .capture_many(&all)
        .unwrap()
        .into_iter()
        .map(|captured| match captured {
            redrive::Capture::New(id) | redrive::Capture::Known(id) => id,
        })
        .collect();
    for state in [LetterState::Recovered, LetterState::Discarded] {
        // Long enough that most are there to the end.
        let rule = Retention::archive(state, Duration::from_secs(2));
        db.set_retention(&rule, &Act::new()).unwrap();
    }
    let queue = Queue::new(&db, "orders").unwrap();
    let others = test.queue("orders");
    let workers = [jobs(&queue), jobs(&others)].map(|worker| worker.start().unwrap());

    let told: Arc<Mutex<Told>> = Arc::default();
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
                told: Arc::clone(&told),
            };
            let start = Arc::clone(&start);
            thread::spawn(move || {
                start.wait();
                for _ in 0..ROUNDS {
                    if let Err(error) = hand.act() {
                        hand.trouble(&format!("{error:?}"));
                    }
                }
            })
        })
        .collect();
    for one in crowd {
        one.join().expect("one of the crowd");
    }
    let told = Arc::try_unwrap(told).expect("they are gone");
    let told = told.into_inner().expect("no panic");
    assert!(told.troubles.is_empty(), "\n{}\n", told.troubles.join("\n"));
    drained(&queue);
    let counts = workers.map(stop).map(|stopped| stopped.counts);
    assert!(counts.iter().any(|counts| counts.dead > 0), "{counts:?}");
    each_has_one_end(&mut test.client(), &letters, &told);
    drop((db, queue, others, hands));
    assert_eq!(deadlocks(&test), 0);
}

/// Fails unless each letter is in one place, and as often on its way as it was sent.
#[track_caller]
fn each_has_one_end(client: &mut Client, letters: &[JobId], told: &Told) {
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
    let mut seen: Vec<JobId> = told.discarded.clone();
    seen.sort_unstable();
    seen.dedup();
    assert_eq!(seen.len(), told.discarded.len(), "one was discarded twice");
    for id in letters {
        let [(state, generation)] = &found[id][..] else {
            panic!("letter {id} is in {:?}", found[id])
        };
        // A letter learns of its generation when its job dies.
        let times = generation + u32::from(state == "recovered");
        sent += u64::from(times);
        assert!(times >= told.redriven.get(id).copied().unwrap_or(0), "{id}");
        assert_eq!(state == "discarded", seen.contains(id), "{id} is {state}");
        assert_ne!(state, "redriving", "{id}");
    }
    let directly: u64 = told.redriven.values().map(|times| u64::from(*times)).sum();
    assert_eq!(
        sent,
        directly + told.by_runs,
        "each was sent as often as it was told"
    );
}
