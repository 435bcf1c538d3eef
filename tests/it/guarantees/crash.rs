//! Crashes: a worker process that is killed in mid-flight, and a job that kills its process.

use redrive_tests::prelude::*;

use crate::worker_process::WorkerProcess;

/// Creates the tables in which the test worker records its progress.
fn notes(test: &TestDatabase) {
    test.sql("CREATE TABLE public.begun (job bigint); CREATE TABLE public.finished (job bigint)");
}

/// Returns the number of rows in a table, and of different jobs.
fn noted(test: &TestDatabase, table: &str) -> (i64, i64) {
    let asked = format!("SELECT count(*), count(DISTINCT job) FROM public.{table}");
    test.client().row(&asked, &[])
}

fn jobs<P: Payload>(payload: &P, count: usize, priority: i16) -> Vec<NewJob> {
    vec![NewJob::new(payload).unwrap().priority(priority); count]
}

#[test]
fn a_killed_worker_loses_no_job() {
    let test = TestDatabase::migrated();
    notes(&test);
    let queue = test.queue("orders");
    let mut process = WorkerProcess::start(&test, &queue);
    // Quick jobs first, so that it claims in batches.
    queue.enqueue_jobs(&jobs(&Finish {}, 200, 0)).unwrap();
    drained(&queue);
    assert_eq!(noted(&test, "finished"), (200, 200));

    // Its four slots are busy, and it has claimed more jobs.
    let mut batch = jobs(&Hold {}, 4, 9);
    batch.extend(jobs(&Finish {}, 96, 0));
    let ids = ids(&queue.enqueue_jobs(&batch).unwrap());
    wait_until("four jobs to be in mid-flight", SOON, || {
        noted(&test, "begun") == (4, 4)
    });
    process.kill();
    no_drift(queue.database());
    let before = stats(queue.database(), "orders").expect("a queue with jobs");
    assert!(before.leased >= 4, "{before:?}");
    assert_eq!(before.leased + before.ready, 100, "{before:?}");

    let lost = expire_leases(&mut test.client());
    assert_eq!(lost.len() as u64, before.leased);
    let are_back = lost.iter().all(|lost| matches!(lost, Lost::Back(_)));
    assert!(are_back, "{lost:?}");
    let tally = kept::<Tally>();
    let rescuer = worker(&queue).slots(4).handle_any(move |job| {
        tally.count(job.id());
        Ok(())
    });
    let rescuer = rescuer.started();
    drained(&queue);
    done(&rescuer, 100);
    assert_eq!(stop(rescuer).stats.lost, 0);
    assert!(ids.iter().all(|id| tally.of(*id) == 1));
    assert_eq!(in_state(&queue, LetterState::Open), 0);
    no_drift(queue.database());
}

#[test]
fn a_job_that_kills_its_process_is_dead_lettered_alone() {
    let test = TestDatabase::migrated();
    notes(&test);
    let queue = test.queue("orders");
    let mut all = jobs(&Finish {}, 30, 0);
    all.insert(10, NewJob::new(&Abort {}).unwrap());
    let ids = ids(&queue.enqueue_jobs(&all).unwrap());
    let poison = ids[10];
    for crash in 1..=3 {
        WorkerProcess::start(&test, &queue).wait_for_its_end();
        assert_eq!(noted(&test, "begun"), (crash, 1));
        let lost = expire_leases(&mut test.client());
        let dead = lost.iter().filter(|lost| matches!(lost, Lost::Dead(_)));
        let dead: Vec<&Lost> = dead.collect();
        match crash {
            3 => assert_eq!(dead, [&Lost::Dead(poison)]),
            _ => assert!(
                dead.is_empty() && lost.contains(&Lost::Back(poison)),
                "{lost:?}"
            ),
        }
    }
    let process = WorkerProcess::start(&test, &queue);
    drained(&queue);
    drop(process);
    assert_eq!(noted(&test, "finished").1, 30, "the other jobs are done");
    assert_eq!(in_state(&queue, LetterState::Open), 1);
    let letter = queue.letter(poison);
    assert_eq!(letter.cause, DeathCause::WorkerLost);
    assert_eq!(letter.kind.as_str(), "abort");
    assert_eq!(outcomes(&letter), [(0, "worker_lost"); 3]);
}
