//! Crashes: a worker process that is killed in mid-flight, and a job that kills its process.

use std::process::{Child, Command, Stdio};

use redrive::{LetterState, NewJob, Queue, Reason};
use redrive_tests::{
    Abort, Finish, Hold, Lost, SOON, Tally, TestDatabase, counted, drained, letters_in,
    lose_leases, stats, stop, wait_until, worker,
};

/// A worker process, killed with SIGKILL at the end of the test if not before.
struct Doomed(Child);

impl Doomed {
    fn start(test: &TestDatabase, queue: &Queue) -> Doomed {
        let child = Command::new(env!("CARGO_BIN_EXE_doomed"))
            .args([test.url(), queue.name()])
            .stderr(Stdio::inherit())
            .spawn()
            .expect("start the doomed process");
        Doomed(child)
    }

    /// Kills it with SIGKILL; it is gone when this returns.
    fn kill(&mut self) {
        self.0.kill().expect("kill the doomed process");
        self.0.wait().expect("wait for its end");
    }

    /// Waits until it has ended by itself.
    fn wait_for_its_end(&mut self) {
        wait_until("the process to abort", SOON, || {
            self.0.try_wait().expect("ask for its end").is_some()
        });
    }
}

impl Drop for Doomed {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

/// The tables through which the doomed process tells what it does.
fn notes(test: &TestDatabase) {
    test.client()
        .batch_execute(
            "CREATE TABLE public.begun (job bigint); CREATE TABLE public.finished (job bigint)",
        )
        .unwrap();
}

/// How many notes there are in a table, and on how many jobs.
fn noted(test: &TestDatabase, table: &str) -> (i64, i64) {
    let asked = format!("SELECT count(*), count(DISTINCT job) FROM public.{table}");
    let row = test.client().query_one(&asked, &[]).unwrap();
    (row.get(0), row.get(1))
}

fn jobs<P: redrive::Payload>(payload: &P, count: usize, priority: i16) -> Vec<NewJob> {
    vec![NewJob::new(payload).unwrap().priority(priority); count]
}

#[test]
fn a_worker_killed_in_mid_flight_loses_no_job() {
    let test = TestDatabase::migrated();
    notes(&test);
    let queue = test.queue("orders");
    let mut doomed = Doomed::start(&test, &queue);
    // Quick jobs first, so that it claims in batches.
    queue.add_many(jobs(&Finish {}, 200, 0)).unwrap();
    drained(&queue);
    let warm_up = noted(&test, "finished");
    assert_eq!(warm_up, (200, 200));

    // Its four slots are held; behind them it has more in its hands.
    let mut batch = jobs(&Hold {}, 4, 9);
    batch.extend(jobs(&Finish {}, 96, 0));
    let ids = queue.add_many(batch).unwrap();
    wait_until("four jobs to be in mid-flight", SOON, || {
        noted(&test, "begun") == (4, 4)
    });
    doomed.kill();
    let before = stats(queue.database(), "orders").expect("a queue with jobs");
    assert!(before.leased >= 4, "{before:?}");
    assert_eq!(before.leased + before.ready, 100, "{before:?}");

    let lost = lose_leases(&mut test.client());
    assert_eq!(lost.len() as u64, before.leased);
    assert!(
        lost.iter().all(|lost| matches!(lost, Lost::Back(_))),
        "{lost:?}"
    );
    let tally = Tally::new();
    let rescuer = worker(&queue)
        .slots(4)
        .handle_any({
            let tally = tally.clone();
            move |job| {
                tally.count(job.id());
                Ok(())
            }
        })
        .start()
        .unwrap();
    drained(&queue);
    counted(&rescuer, "100 done", |counts| counts.done == 100);
    assert_eq!(stop(rescuer).counts.lost, 0);
    assert!(ids.iter().all(|id| tally.of(*id) == 1));
    assert_eq!(letters_in(queue.database(), "orders", LetterState::Open), 0);
}

#[test]
fn a_job_that_kills_its_process_becomes_a_letter_and_takes_nobody_with_it() {
    let test = TestDatabase::migrated();
    notes(&test);
    let queue = test.queue("orders");
    let mut all = jobs(&Finish {}, 30, 0);
    all.insert(10, NewJob::new(&Abort {}).unwrap());
    let ids = queue.add_many(all).unwrap();
    let poison = ids[10];
    for crash in 1..=3 {
        Doomed::start(&test, &queue).wait_for_its_end();
        assert_eq!(noted(&test, "begun"), (crash, 1));
        let lost = lose_leases(&mut test.client());
        let expected = if crash < 3 {
            Lost::Back(poison)
        } else {
            Lost::Dead(poison)
        };
        assert!(lost.contains(&expected), "crash {crash}: {lost:?}");
        let dead = lost
            .iter()
            .filter(|lost| matches!(lost, Lost::Dead(_)))
            .count();
        assert_eq!(dead, usize::from(crash == 3), "crash {crash}: {lost:?}");
    }
    let doomed = Doomed::start(&test, &queue);
    drained(&queue);
    drop(doomed);
    assert_eq!(noted(&test, "finished").1, 30, "the innocent are done");
    let db = queue.database();
    assert_eq!(letters_in(db, "orders", LetterState::Open), 1);
    let letter = db.letter(poison).unwrap().expect("a letter");
    assert_eq!(
        (letter.reason, letter.kind.as_str()),
        (Reason::WorkerLost, "abort")
    );
    assert_eq!(letter.history.len(), 3);
    assert!(
        letter
            .history
            .iter()
            .all(|attempt| attempt.outcome == "worker_lost")
    );
}
