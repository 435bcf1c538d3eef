//! Every operation on jobs and letters changes the counters exactly once.

/// Operations: what each needs, what it does, and the changes of series that add up to its own.
macro_rules! cases {
    ($($name:literal $(given $given:expr)?, $change:expr => $($changes:expr),*;)+) => {
        &[$(Case {
            name: $name,
            given: &[$($given)?],
            change: $change,
            changes: || [$(String::from($changes)),*].join(" "),
        }),+]
    };
}

mod attempts;
mod enqueue;
mod leases;
mod letters;

use redrive_tests::prelude::*;

use attempts::ATTEMPTS;
use enqueue::ENQUEUE;
use leases::LEASES;
use letters::LETTERS;

/// The queue of a case, and a connection.
struct Fixture {
    queue: Queue,
    client: Client,
}

type Step = fn(&mut Fixture);

/// An operation.
struct Case {
    name: &'static str,
    given: &'static [Step],
    change: Step,
    /// Words such as `jobs_released_total{q}=4`, of names without their prefix; `q` is the queue.
    changes: fn() -> String,
}

/// The changes of enqueued jobs.
fn enqueued(jobs: i64) -> String {
    format!("jobs_enqueued_total{{q}}={jobs} queue_live_jobs{{q}}={jobs}")
}

fn claimed(jobs: i64) -> String {
    format!("jobs_claimed_total{{q}}={jobs} job_queue_wait_seconds{{q}}={jobs}")
}

/// The changes of jobs that end as done after their claim.
fn succeeded(jobs: i64) -> String {
    format!(
        "jobs_succeeded_total{{q,order}}={jobs} job_run_seconds{{q,succeeded}}={jobs} \
         job_end_to_end_seconds{{q}}={jobs} job_attempts_to_success{{q}}={jobs} queue_live_jobs{{q}}=-{jobs}"
    )
}

/// The changes of a claimed job whose attempt fails.
fn failed(cause: &str) -> String {
    format!("job_attempts_failed_total{{q,order,{cause}}}=1 job_run_seconds{{q,failed}}=1")
}

/// The changes of jobs that become letters after their last attempt, if there was one.
fn buried(jobs: i64, cause: &str, class: &str) -> String {
    format!(
        "jobs_dead_lettered_total{{q,{cause}}}={jobs} jobs_dead_lettered_by_kind_total{{q,order}}={jobs} \
         dlq_errors_total{{q,{class}}}={jobs} job_attempts_at_dead_letter{{q}}={jobs} \
         dlq_letters{{q,open}}={jobs} queue_live_jobs{{q}}=-{jobs}"
    )
}

/// The changes of jobs that succeed at their first attempt.
fn done(jobs: i64) -> String {
    [claimed(jobs), succeeded(jobs)].join(" ")
}

/// The changes of a job that dies at its first attempt.
fn died(failure: &str, cause: &str, class: &str) -> String {
    [claimed(1), failed(failure), buried(1, cause, class)].join(" ")
}

/// The changes of letters that move from one state to another.
fn moved(letters: i64, from: &str, to: &str) -> String {
    format!("dlq_letters{{q,{from}}}=-{letters} dlq_letters{{q,{to}}}={letters}")
}

/// Adds up the changes of each series.
fn added(words: &str) -> Published {
    let mut all = Published::new();
    for word in words.split_whitespace() {
        let (series, change) = word.rsplit_once('=').expect(word);
        let change: i64 = change.parse().expect(word);
        *all.entry(format!("redrive_{series}")).or_default() += change;
    }
    all.retain(|_, change| *change != 0);
    all
}

impl Fixture {
    fn enqueue(&self, count: i64) -> Vec<JobId> {
        self.queue.enqueue_many(&Order::up_to(count)).unwrap()
    }

    /// Drains the queue with a handler.
    fn work(&self, handler: impl Fn(&Job<Order>) -> Result<(), Failure> + Send + Sync + 'static) {
        work_off(&self.queue, handler);
    }

    fn sql(&mut self, text: &str) {
        self.client
            .batch_execute(&text.replace("QUEUE", self.queue.name()))
            .unwrap_or_else(|error| panic!("{text}: {error:?}"));
    }

    /// Returns the lease of the claimed jobs.
    fn lease(&mut self) -> Uuid {
        let asked = "SELECT lease_id FROM redrive.leases WHERE queue = $1";
        self.client.ask(asked, &[&self.queue.name()])
    }

    /// Runs the settle for the jobs of a lease, with their verdicts and causes, and these counts.
    fn settle(&mut self, lease: Uuid, verdicts: &[(&str, Option<&str>)], counts: &[Count]) {
        let asked =
            "SELECT array_agg(j.id ORDER BY j.id) FROM redrive.leases l, unnest(l.ids) j (id)
                     WHERE l.lease_id = $1";
        let held: Option<Vec<i64>> = self.client.ask(asked, &[&lease]);
        let jobs = held.unwrap_or_else(|| (1..).take(verdicts.len()).collect());
        let verdicts = jobs.into_iter().zip(verdicts);
        let verdicts = verdicts.map(|(job, (word, cause))| (job, *word, *cause));
        let verdicts: Vec<_> = verdicts.collect();
        let settlement = Settlement {
            queue: self.queue.name(),
            lease,
            verdicts: &verdicts,
            delay_ms: 0,
            counts,
        };
        settlement.write(&mut self.client);
    }

    fn letters(&self) -> LetterFilter {
        LetterFilter::new().queue(self.queue.name())
    }

    fn redrive(&self) {
        let db = self.queue.database();
        let redriven = db.redrives(&self.letters());
        assert!(!redriven.redriven.is_empty());
    }

    fn dead_letter(&self, count: i64) {
        letters(&self.queue, count);
    }

    fn captured(&self, position: &str) -> ForeignFailure {
        let name = self.queue.name();
        ForeignFailure::new(name, position, name, "event", b"{}").error("Broken", "m")
    }
}

/// The worker of a queue.
fn hand(queue: &Queue) -> Hand<'_> {
    Hand::of(queue.name())
}

/// Claims the jobs of the queue.
fn claim(s: &mut Fixture) {
    hand(&s.queue).claims(&mut s.client);
}

/// Releases all leases, of jobs that have not started.
fn release(s: &mut Fixture) {
    hand(&s.queue).releases(&mut s.client, None, Some(&[]));
}

fn reject(_: &Job<Order>) -> Result<(), Failure> {
    Err(Failure::reject("broken").class("Broken"))
}

#[expect(clippy::unnecessary_wraps, reason = "every handler returns a result")]
fn succeed(_: &Job<Order>) -> Result<(), Failure> {
    Ok(())
}

/// Fails the first attempt and succeeds afterwards.
fn once(failure: fn() -> Failure) -> impl Fn(&Job<Order>) -> Result<(), Failure> {
    let calls = AtomicUsize::new(0);
    move |_| match calls.fetch_add(1, Ordering::SeqCst) {
        0 => Err(failure()),
        _ => Ok(()),
    }
}

/// Runs a case and returns what it changed, with `q` for its queue.
fn observe(fixture: &mut Fixture, case: &Case) -> Published {
    case.given.iter().for_each(|given| given(fixture));
    let before = published(&mut fixture.client);
    (case.change)(fixture);
    let after = published(&mut fixture.client);
    let name = fixture.queue.name();
    changed(&before, &after)
        .into_iter()
        // How many chores a worker runs depends on how long it runs.
        .filter(|(series, _)| !series.starts_with("redrive_chore_seconds"))
        .map(|(series, change)| (series.replace(name, "q"), change))
        .collect()
}

#[test]
fn every_change_is_counted_once_before_and_after_a_fold() {
    let (test, db) = TestDatabase::opened();
    let mut wrong = Vec::new();
    let cases = [ENQUEUE, ATTEMPTS, LEASES, LETTERS];
    for (number, case) in cases.into_iter().flatten().enumerate() {
        let mut fixture = Fixture {
            queue: Queue::new(&db, &format!("queue-{number}-of-a-test")).unwrap(),
            client: test.client(),
        };
        let changes = observe(&mut fixture, case);
        let expected = added(&(case.changes)());
        if changes != expected {
            let missing = changed(&changes, &expected);
            wrong.push(format!("{}: {missing:#?} is missing", case.name));
        }
        let before = published(&mut fixture.client);
        no_drift(&db);
        fold(&mut fixture.client);
        let after = published(&mut fixture.client);
        let folded: Published = changed(&before, &after);
        if !folded.is_empty() {
            wrong.push(format!("{}: the fold changes {folded:#?}", case.name));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
