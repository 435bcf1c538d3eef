//! Groups of jobs: order, limits, turns, and what a death stops.

mod claim;
mod divert;
mod ends;
mod fair;
mod followers;
mod hold;
mod limit;
mod ordered;
mod policy;
mod races;

use redrive_tests::prelude::*;

pub(crate) const CONTINUE: GroupPolicy = GroupPolicy::Ordered(GroupDeath::Continue);
const DIVERT: GroupPolicy = GroupPolicy::Ordered(GroupDeath::Divert);
const HOLD: GroupPolicy = GroupPolicy::Ordered(GroupDeath::Hold);

/// A migrated database with a queue that has this policy.
pub(crate) fn with_policy(policy: GroupPolicy) -> (TestDatabase, Queue) {
    let (test, queue) = TestDatabase::with_orders();
    queue.set_group_policy(policy, &maria()).unwrap();
    (test, queue)
}

pub(crate) fn order(group: &str, number: i64) -> NewJob {
    new_order(number).group(group)
}

/// Enqueues orders 1 to `count` of each group, one round of all groups after the other.
pub(crate) fn enqueue_rounds(queue: &Queue, groups: &[&str], count: i64) -> Vec<JobId> {
    let rounds = (1..=count).flat_map(|number| groups.iter().map(move |group| (*group, number)));
    let jobs: Vec<NewJob> = rounds.map(|(group, number)| order(group, number)).collect();
    ids(&queue.enqueue_jobs(&jobs).unwrap())
}

fn enqueue(queue: &Queue, group: &str, number: i64) -> JobId {
    put(queue, order(group, number))
}

/// The finished orders, in their order, with their groups and times.
#[derive(Default)]
pub(crate) struct Finished(Mutex<Vec<(String, i64, Instant)>>);

impl Finished {
    pub(crate) fn note(&self, job: &Job<Order>) {
        let group = job.group().unwrap_or_default().to_owned();
        let finished = (group, job.payload().number, Instant::now());
        self.0.lock().unwrap().push(finished);
    }

    /// A handler that finishes its orders.
    pub(crate) fn noting(
        &'static self,
    ) -> impl Fn(&Job<Order>) -> Result<(), Failure> + Send + Sync {
        self.noting_unless(|_| Ok(()))
    }

    /// A handler that finishes its orders unless the call fails.
    fn noting_unless(
        &'static self,
        call: impl Fn(&Job<Order>) -> Result<(), Failure> + Send + Sync + 'static,
    ) -> impl Fn(&Job<Order>) -> Result<(), Failure> + Send + Sync + 'static {
        move |job| {
            call(job)?;
            self.note(job);
            Ok(())
        }
    }

    /// The numbers of one group and their times, in the order in which they ended.
    pub(crate) fn timed(&self, group: &str) -> (Vec<i64>, Vec<Instant>) {
        let all = self.0.lock().unwrap();
        let of_group = all.iter().filter(|(of, ..)| of == group);
        of_group.map(|(_, number, time)| (*number, *time)).unzip()
    }

    pub(crate) fn of(&self, group: &str) -> Vec<i64> {
        self.timed(group).0
    }

    pub(crate) fn count(&self, group: &str) -> usize {
        self.of(group).len()
    }
}

/// A worker that finishes every order.
fn finishing(queue: &Queue, finished: &'static Finished) -> Worker {
    worker(queue).slots(2).runs(finished.noting())
}

/// Waits until all jobs have ended, and checks which orders of the group `a` ran.
#[track_caller]
fn all_end(
    test: &TestDatabase,
    queue: &Queue,
    worker: Worker,
    finished: &'static Finished,
    ran: &[i64],
) {
    finish(queue, worker);
    assert_eq!(finished.of("a"), ran);
    assert_eq!(test.count("group_slots"), 0);
}

/// Runs all jobs, and checks which orders of the group `a` ran.
#[track_caller]
fn run_all(test: &TestDatabase, queue: &Queue, ran: &[i64]) {
    let finished = kept::<Finished>();
    all_end(test, queue, finishing(queue, finished), finished, ran);
}
