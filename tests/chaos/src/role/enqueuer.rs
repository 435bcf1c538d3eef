//! An enqueuer: stores jobs in every way redrive offers, and records which ones were acknowledged.

mod grouped;
mod unique;

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use postgres::types::{ToSql, Type};
use postgres::{Client, NoTls};
use redrive::{NewJob, Queue, Result};

use crate::client::{answer_of, keys};
use crate::history::{ClientEvent, ClientLog, Operation};
use crate::role::batch::is_in_batch;
use crate::role::{
    BatchWork, DependentWork, JobMix, MAX_ATTEMPTS, Options, Plan, QUEUE, TransactionalWork, Work,
    insist,
};

/// One of this many operations uses COPY: about one a minute.
const COPY_EVERY: u32 = 75;
/// Keys that are often held, and keys that rarely are.
const HOT_KEYS: u32 = 40;
const COLD_KEYS: u32 = 20_000;
/// How a job may fail, and how many of so many jobs do: in batches more, so that one rarely ends without a failure.
const FAILURES: [Plan; 6] = [
    Plan::Retry,
    Plan::Panic,
    Plan::Reject,
    Plan::Snooze,
    Plan::Outage,
    Plan::Abort,
];
type Weights = ([u32; FAILURES.len()], u32);
const USUAL: Weights = ([160, 40, 100, 50, 49, 1], 2000);
const IN_BATCHES: Weights = ([45, 15, 21, 10, 8, 1], 300);
const IN_GROUPS: Weights = ([8, 2, 6, 3, 2, 0], 100);

pub(super) fn run(options: &Options, stop: &AtomicBool) {
    let log = options.log();
    let Some(db) = insist(stop, || options.open()) else {
        return;
    };
    let mut enqueuer = Enqueuer {
        options,
        log,
        queue: Queue::new(&db, QUEUE).expect("a valid name"),
        random: options.random(),
        next_key: i64::from(options.number) << 40,
        transactions: 0,
        client: None,
    };
    let begin = Instant::now();
    let mut stored: u64 = 0;
    while !stop.load(Ordering::Relaxed) {
        stored += enqueuer.next_operation();
        let due = begin + Duration::from_secs(stored) / options.spec.rate.max(1);
        // In short steps, so that SIGTERM is noticed.
        while Instant::now() < due && !stop.load(Ordering::Relaxed) {
            let left = due.saturating_duration_since(Instant::now());
            thread::sleep(left.min(Duration::from_millis(20)));
        }
    }
}

/// The ids of stored jobs, or another result of their operation.
type Stored = std::result::Result<Vec<i64>, ClientEvent>;

struct Enqueuer<'a> {
    options: &'a Options,
    log: ClientLog,
    queue: Queue,
    random: fastrand::Rng,
    next_key: i64,
    transactions: u64,
    /// The connection of its transactions.
    client: Option<Client>,
}

impl Enqueuer<'_> {
    /// Stores some jobs. Returns how many it tried to store.
    fn next_operation(&mut self) -> u64 {
        match self.options.spec.mix {
            JobMix::Instant => self.plain(4),
            JobMix::Mixed | JobMix::Tame => self.mixed(),
            JobMix::Grouped => self.grouped(),
        }
    }

    fn mixed(&mut self) -> u64 {
        if self.random.u32(0..COPY_EVERY) == 0 {
            self.copy();
            // Not the time of a thousand jobs, in which this process would be idle.
            return 1;
        }
        match self.random.u32(0..100) {
            0..=39 => self.plain(1),
            40..=59 => {
                let jobs = self.random.usize(2..60);
                self.plain(jobs)
            }
            60..=79 => {
                let jobs = self.random.usize(1..8);
                self.in_transaction(jobs)
            }
            80..=89 => self.by_function(),
            _ => self.unique(),
        }
    }

    /// Stores enough jobs for COPY. They run in no time, because one worker must be able to keep up.
    fn copy(&mut self) {
        let mut works = self.works(1001);
        for work in &mut works {
            work.ms = 0;
        }
        self.store_all(&works);
    }

    fn plain(&mut self, jobs: usize) -> u64 {
        let works = self.works(jobs);
        self.store_all(&works);
        jobs as u64
    }

    fn store_all(&mut self, works: &[Work]) {
        let jobs = self.jobs(works);
        // The history has its result.
        _ = self.log.call(Operation::Enqueue, &keys(works), &[], || {
            let stored = self.queue.enqueue_jobs(&jobs?)?;
            Ok(stored.into_iter().flat_map(answer_of).collect())
        });
    }

    /// Stores jobs in a transaction, and rolls back every third one.
    fn in_transaction(&mut self, jobs: usize) -> u64 {
        let works = self.works(jobs);
        self.connected(&works, |enqueuer, client| {
            enqueuer.store_in_transaction(&works, client)
        })
    }

    fn store_in_transaction(&mut self, works: &[Work], client: &mut Client) -> Stored {
        let open_for = Duration::from_millis(self.random.u64(0..30));
        let jobs = self.jobs(works).map_err(ClientEvent::failed)?;
        let mut transaction = client.transaction().map_err(ClientEvent::failed)?;
        let stored = self.queue.enqueue_jobs_in(&mut transaction, &jobs);
        let stored = stored.map_err(ClientEvent::failed)?;
        let ids: Vec<i64> = stored.into_iter().flat_map(answer_of).collect();
        thread::sleep(open_for);
        self.transactions += 1;
        if self.transactions.is_multiple_of(3) {
            // Nothing is committed, even if the rollback itself fails.
            _ = transaction.rollback();
            return Err(ClientEvent::failed("rolled back"));
        }
        transaction.commit().map_err(ClientEvent::unknown)?;
        Ok(ids)
    }

    /// Calls the SQL function, as programs in other languages do.
    fn by_function(&mut self) -> u64 {
        let works = self.works(1);
        self.connected(&works, |_, client| {
            let payload = serde_json::to_string(&works[0]).expect("a payload is JSON");
            let attempts = MAX_ATTEMPTS.cast_signed();
            let query = "SELECT redrive.enqueue($1, $2, $3::text::jsonb, max_attempts => $4)";
            // Unprepared, because a pooler may be in between.
            let parameters: [(&(dyn ToSql + Sync), Type); 4] = [
                (&QUEUE, Type::TEXT),
                (&"work", Type::TEXT),
                (&payload, Type::TEXT),
                (&attempts, Type::INT4),
            ];
            let row = client.query_typed_one(query, &parameters);
            Ok(vec![row.map_err(ClientEvent::unknown)?.get(0)])
        })
    }

    /// Stores jobs through a plain connection, which is kept if that succeeds. Returns how many it tried to store.
    fn connected(
        &mut self,
        works: &[Work],
        store: impl FnOnce(&mut Self, &mut Client) -> Stored,
    ) -> u64 {
        let op = self.log.invoke(Operation::Enqueue, &keys(works), &[]);
        let stored = match self.client() {
            Some(mut client) => {
                let stored = store(self, &mut client);
                self.client = stored.is_ok().then_some(client);
                stored
            }
            None => Err(ClientEvent::failed("no connection")),
        };
        let event = stored.map_or_else(|event| event, |ids| ClientEvent::Ok { ids });
        self.log.write(op, event);
        works.len() as u64
    }

    fn client(&mut self) -> Option<Client> {
        let open = self.client.take().filter(|client| !client.is_closed());
        open.or_else(|| {
            let url = format!("{}&connect_timeout=2", self.options.named_url());
            Client::connect(&url, NoTls).ok()
        })
    }

    fn jobs(&mut self, works: &[Work]) -> Result<Vec<NewJob>> {
        let jobs = works.iter();
        jobs.map(|work| self.keyed_job(work, works.len())).collect()
    }

    /// Returns a job, which has a unique key more often than not. COPY stores no keys.
    fn keyed_job(&mut self, work: &Work, batch: usize) -> Result<NewJob> {
        if self.options.spec.mix == JobMix::Grouped {
            return self.grouped_job(work);
        }
        let job = self.job(work)?;
        if !self.is_mixed() || batch > 1000 || self.random.u32(0..10) < 3 {
            return Ok(job);
        }
        let keys = if self.random.u32(0..4) == 0 {
            HOT_KEYS
        } else {
            COLD_KEYS
        };
        Ok(job.unique(format!("u{}", self.random.u32(0..keys))))
    }

    fn is_mixed(&self) -> bool {
        [JobMix::Mixed, JobMix::Tame].contains(&self.options.spec.mix)
    }

    fn job(&mut self, work: &Work) -> Result<NewJob> {
        if !self.is_mixed() {
            return Ok(NewJob::new(work)?.max_attempts(MAX_ATTEMPTS));
        }
        let job = if work.key % 11 == 0 {
            NewJob::new(&TransactionalWork(work.clone()))
        } else if work.key % 13 == 0 {
            NewJob::new(&DependentWork(work.clone()))
        } else if is_in_batch(work.key) {
            NewJob::new(&BatchWork(work.clone()))
        } else {
            NewJob::new(work)
        };
        let job = job?.max_attempts(MAX_ATTEMPTS);
        let job = match self.random.u32(0..10) {
            0 => job.delay(Duration::from_millis(self.random.u64(1..1500))),
            _ => job,
        };
        Ok(match self.random.u32(0..10) {
            0 => job.priority(self.random.i16(-5..=5)),
            _ => job,
        })
    }

    fn works(&mut self, count: usize) -> Vec<Work> {
        (0..count).map(|_| self.work()).collect()
    }

    fn work(&mut self) -> Work {
        self.next_key += 1;
        let key = self.next_key;
        let (plan, ms) = match self.options.spec.mix {
            JobMix::Instant => return Work::instant(key),
            JobMix::Mixed | JobMix::Tame if is_in_batch(key) => {
                (self.plan(IN_BATCHES), self.run_time())
            }
            JobMix::Mixed | JobMix::Tame => (self.plan(USUAL), self.run_time()),
            JobMix::Grouped => self.grouped_plan(),
        };
        Work {
            key,
            plan,
            ms,
            times: self.random.u32(1..=MAX_ATTEMPTS),
            steps: self.random.u32(0..8).saturating_sub(5),
            follow_ups: self.random.u32(0..8).saturating_sub(6),
        }
    }

    /// Returns how a job ends: it fails in one of the ways by their weights, and else it succeeds.
    fn plan(&mut self, (weights, of): Weights) -> Plan {
        let mut left = Some(self.random.u32(0..of));
        let chosen = FAILURES.into_iter().zip(weights).find(|(_, weight)| {
            left = left.and_then(|left| left.checked_sub(*weight));
            left.is_none()
        });
        match chosen.map_or(Plan::Done, |(plan, _)| plan) {
            Plan::Abort if self.options.spec.mix == JobMix::Tame => Plan::Done,
            plan => plan,
        }
    }

    /// Returns a time in milliseconds: from microseconds to three leases of a round.
    fn run_time(&mut self) -> u64 {
        match self.random.u32(0..100) {
            0..=11 => self.random.u64(3000..9000),
            12..=17 => self.random.u64(600..3000),
            18..=27 => self.random.u64(50..600),
            28..=49 => self.random.u64(0..10),
            _ => 0,
        }
    }
}
