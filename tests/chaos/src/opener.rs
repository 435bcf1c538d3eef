//! The opener: an enqueue that stays open while the ring turns, and its segment is looked at.

use std::thread;
use std::time::Duration;

use postgres::{Client, NoTls};
use redrive::{NewJob, Queue};

use crate::actor::{ATTEMPTS, Plan, QUEUE, Work};
use crate::record::{Log, Said, Verb};
use crate::stage::Stage;

/// How long the transaction is open after the ring has begun to turn: longer than a truncation waits
/// for its lock, and shorter than one that waits for too long.
const OPEN_FOR: Duration = Duration::from_millis(200);
/// A truncation, a turn, and another truncation; workers turn it, too.
const STEPS: usize = 6;
/// The first of its keys, far from those of all others.
const FIRST_KEY: i64 = 9_000_000_000;

/// Somebody who enqueues slowly.
pub(crate) struct Opener {
    log: Log,
    queue: Queue,
    enqueuing: Client,
    turning: Client,
    key: i64,
}

impl Opener {
    pub(crate) fn new(stage: &Stage) -> Opener {
        let url = format!("{}&application_name=opener", stage.url());
        let connect = || Client::connect(&url, NoTls).expect("connect");
        let db = redrive::connect(&url).expect("connect");
        Opener {
            log: stage.log("opener"),
            queue: Queue::new(&db, QUEUE).expect("a good name"),
            enqueuing: connect(),
            turning: connect(),
            key: FIRST_KEY,
        }
    }

    /// A job is in a segment, and nobody sees it yet, when the ring leaves the segment.
    pub(crate) fn enqueue_across_a_turn(&mut self) {
        self.key += 1;
        let work = Work {
            key: self.key,
            plan: Plan::Done,
            ms: 0,
            times: 0,
        };
        let job = NewJob::new(&work).expect("a job").max_attempts(ATTEMPTS);
        let op = self.log.asked(Verb::Enqueue, &[self.key], &[]);
        let mut transaction = self.enqueuing.transaction().expect("begin");
        let ids = self
            .queue
            .add_many_in(&mut transaction, &[job])
            .expect("enqueue");
        let turning = &mut self.turning;
        thread::scope(|scope| {
            scope.spawn(|| {
                for _ in 0..STEPS {
                    // Every segment is long enough for it.
                    turning
                        .query("SELECT redrive.turn_ring(0, 1000)", &[])
                        .expect("turn the ring");
                }
            });
            thread::sleep(OPEN_FOR);
            transaction.commit().expect("commit");
        });
        self.log.say(
            op,
            Said::Ok {
                ids: ids.iter().map(|id| id.get()).collect(),
            },
        );
    }
}
