//! An enqueuer: it stores jobs by every way there is, and writes down which ones it was promised.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use postgres::types::{ToSql, Type};
use postgres::{Client, NoTls};
use redrive::{Error, NewJob, Queue, Result, Unique};

use crate::actor::{ATTEMPTS, Diet, Flaw, Options, OwnWork, Plan, QUEUE, Work, opened};
use crate::record::{Log, Said, Verb};

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
    let mut enqueuer = Enqueuer {
        options,
        log,
        queue: Queue::new(&db, QUEUE).expect("a good name"),
        dice: options.dice(),
        next_key: i64::from(options.number) << 40,
        client: None,
    };
    let begin = Instant::now();
    let mut made: u64 = 0;
    while !over.load(Ordering::Relaxed) && (options.jobs == 0 || made < options.jobs) {
        made += enqueuer.act();
        if options.rate > 0 {
            let due =
                begin + Duration::from_secs(1).mul_f64(decimal(made) / f64::from(options.rate));
            // In small steps: it is told to end by a signal.
            while Instant::now() < due && !over.load(Ordering::Relaxed) {
                let left = due.saturating_duration_since(Instant::now());
                thread::sleep(left.min(Duration::from_millis(20)));
            }
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "a pace, not a count")]
fn decimal(count: u64) -> f64 {
    count as f64
}

struct Enqueuer<'a> {
    options: &'a Options,
    log: Log,
    queue: Queue,
    dice: fastrand::Rng,
    next_key: i64,
    /// For transactions of its own.
    client: Option<Client>,
}

impl Enqueuer<'_> {
    /// Stores some jobs; answers how many it tried.
    fn act(&mut self) -> u64 {
        match self.options.diet {
            Diet::Open => self.in_transaction(1),
            Diet::Unique => self.unique(3),
            Diet::Easy | Diet::Long | Diet::Deadly => self.plain(4),
            Diet::Slow | Diet::Rejected => self.plain(1),
            Diet::Mixed | Diet::Tame => match self.dice.u32(0..100) {
                0..=39 => self.plain(1),
                40..=59 => {
                    let jobs = self.dice.usize(2..60);
                    self.plain(jobs)
                }
                60..=79 => {
                    let jobs = self.dice.usize(1..8);
                    self.in_transaction(jobs)
                }
                80..=89 => self.by_function(),
                90..=98 => self.unique(40),
                // By COPY.
                _ => self.plain(1001),
            },
        }
    }

    fn plain(&mut self, jobs: usize) -> u64 {
        let works = self.works(jobs);
        let keys: Vec<i64> = works.iter().map(|work| work.key).collect();
        let op = self.log.asked(Verb::Enqueue, &keys, &[]);
        let answer = self.store(&works);
        let is_unknown = answer.as_ref().is_err_and(|error| !error.is_invalid());
        self.log.told(op, &answer);
        if is_unknown && self.options.flaw == Flaw::AsksAgain {
            let op = self.log.asked(Verb::Enqueue, &[], &[]);
            let again = self.store(&works);
            self.log.told(op, &again.map(|_| Vec::new()));
        }
        jobs as u64
    }

    fn store(&mut self, works: &[Work]) -> Result<Vec<i64>> {
        let jobs = works
            .iter()
            .map(|work| self.job(work))
            .collect::<Result<Vec<_>>>()?;
        let ids = self.queue.add_many(jobs)?;
        Ok(ids.into_iter().map(redrive::JobId::get).collect())
    }

    /// In a transaction of its own, which it may take back.
    fn in_transaction(&mut self, jobs: usize) -> u64 {
        let works = self.works(jobs);
        let keys: Vec<i64> = works.iter().map(|work| work.key).collect();
        let op = self.log.asked(Verb::Enqueue, &keys, &[]);
        // Open across a turn of the ring, where that is what the scene is about.
        let longest = match self.options.diet {
            Diet::Open => 250,
            _ => 30,
        };
        let open_for = Duration::from_millis(self.dice.u64(0..longest));
        let takes_back = self.dice.u32(0..8) == 0;
        let jobs = works
            .iter()
            .map(|work| self.job(work))
            .collect::<Result<Vec<_>>>();
        let Some(mut client) = self.client() else {
            self.log.say(
                op,
                Said::Refused {
                    why: "no connection".to_owned(),
                },
            );
            return works.len() as u64;
        };
        let refused = |why: String| Said::Refused { why };
        let said = (|| {
            let jobs = jobs.map_err(|error| refused(error.to_string()))?;
            let mut transaction = client
                .transaction()
                .map_err(|error| refused(error.to_string()))?;
            let ids = self
                .queue
                .add_many_in(&mut transaction, &jobs)
                .map_err(|error| refused(error.to_string()))?;
            let ids: Vec<i64> = ids.into_iter().map(redrive::JobId::get).collect();
            thread::sleep(open_for);
            if self.options.flaw == Flaw::AcksEarly {
                self.log.say(op, Said::Ok { ids: ids.clone() });
            }
            if takes_back {
                // What was not committed is not there, whatever comes of this.
                _ = transaction.rollback();
                return Err(refused("taken back".to_owned()));
            }
            let unknown = |error: postgres::Error| Said::Unknown {
                why: error.to_string(),
            };
            transaction.commit().map_err(unknown)?;
            Ok(ids)
        })();
        match said {
            Ok(ids) => {
                self.log.say(op, Said::Ok { ids });
                self.client = Some(client);
            }
            // Who was told that it is stored hears nothing else.
            Err(_) if self.options.flaw == Flaw::AcksEarly => {}
            Err(said) => self.log.say(op, said),
        }
        works.len() as u64
    }

    /// As any other language does.
    fn by_function(&mut self) -> u64 {
        let works = self.works(1);
        let op = self.log.asked(Verb::Enqueue, &[works[0].key], &[]);
        let payload = serde_json::to_string(&works[0]).expect("JSON");
        let Some(mut client) = self.client() else {
            self.log.say(
                op,
                Said::Refused {
                    why: "no connection".to_owned(),
                },
            );
            return 1;
        };
        let attempts = ATTEMPTS.cast_signed();
        let asked = "SELECT redrive.enqueue($1, $2, $3::text::jsonb, max_attempts => $4)";
        // Not prepared: there may be a pooler.
        let parameters: [(&(dyn ToSql + Sync), Type); 4] = [
            (&QUEUE, Type::TEXT),
            (&"work", Type::TEXT),
            (&payload, Type::TEXT),
            (&attempts, Type::INT4),
        ];
        match client.query_typed_one(asked, &parameters) {
            Ok(row) => {
                self.log.say(
                    op,
                    Said::Ok {
                        ids: vec![row.get(0)],
                    },
                );
                self.client = Some(client);
            }
            Err(error) => self.log.say(
                op,
                Said::Unknown {
                    why: error.to_string(),
                },
            ),
        }
        1
    }

    /// With one of so many unique keys. An answer that somebody else's job has it is written as
    /// the negative of that job's id.
    fn unique(&mut self, keys: u32) -> u64 {
        let works = self.works(1);
        let key = format!("u{}", self.dice.u32(0..keys));
        let op = self.log.asked(Verb::Enqueue, &[works[0].key], &[]);
        let answer = self
            .job(&works[0])
            .and_then(|job| self.queue.add_unique(job.unique(key)))
            .map(|unique| match unique {
                Unique::Inserted(id) => vec![id.get()],
                Unique::Existing(id) => vec![-id.get()],
            });
        self.log.told(op, &answer);
        1
    }

    fn client(&mut self) -> Option<Client> {
        let open = self.client.take().filter(|client| !client.is_closed());
        open.or_else(|| {
            Client::connect(
                &format!("{}&connect_timeout=2", self.options.address()),
                NoTls,
            )
            .ok()
        })
    }

    fn job(&mut self, work: &Work) -> Result<NewJob> {
        let is_rich = [Diet::Mixed, Diet::Tame].contains(&self.options.diet);
        let is_own = is_rich && work.key % 11 == 0;
        let job = if is_own {
            NewJob::new(&OwnWork(work.clone()))
        } else {
            NewJob::new(work)
        };
        let job = job.map_err(|error: Error| error)?.max_attempts(ATTEMPTS);
        if !is_rich {
            return Ok(job);
        }
        let job = match self.dice.u32(0..10) {
            0 => job.delay(Duration::from_millis(self.dice.u64(1..1500))),
            _ => job,
        };
        Ok(match self.dice.u32(0..10) {
            0 => job.priority(self.dice.i16(-5..=5)),
            _ => job,
        })
    }

    fn works(&mut self, count: usize) -> Vec<Work> {
        (0..count).map(|_| self.work()).collect()
    }

    fn work(&mut self) -> Work {
        self.next_key += 1;
        let key = self.next_key;
        let times = self.dice.u32(1..=ATTEMPTS);
        let (plan, ms) = match self.options.diet {
            Diet::Easy | Diet::Open => (Plan::Done, 0),
            Diet::Long => (Plan::Done, 4000),
            Diet::Slow => (Plan::Done, self.dice.u64(50..250)),
            Diet::Rejected => (Plan::Reject, 0),
            Diet::Deadly if key % 40 == 7 => (Plan::Abort, 0),
            Diet::Deadly => (Plan::Done, 1),
            Diet::Unique => (
                [Plan::Done, Plan::Retry, Plan::Reject][self.dice.usize(0..3)],
                self.dice.u64(0..40),
            ),
            Diet::Mixed | Diet::Tame => {
                let plan = match self.dice.u32(0..2000) {
                    0..=1599 => Plan::Done,
                    1600..=1759 => Plan::Retry,
                    1760..=1799 => Plan::Panic,
                    1800..=1899 => Plan::Reject,
                    1900..=1949 => Plan::Snooze,
                    1950..=1998 => Plan::Outage,
                    _ if self.options.diet == Diet::Tame => Plan::Done,
                    _ => Plan::Abort,
                };
                let ms = match self.dice.u32(0..100) {
                    0..=3 => self.dice.u64(50..600),
                    4..=30 => self.dice.u64(0..10),
                    _ => 0,
                };
                (plan, ms)
            }
        };
        Work {
            key,
            plan,
            ms,
            times,
        }
    }
}
