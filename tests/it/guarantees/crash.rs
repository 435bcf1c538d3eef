//! Crashes: a job that kills its worker process, and the jobs that the process had taken.

use redrive_tests::prelude::*;

use crate::worker_process::WorkerProcess;

/// Returns the number of rows in a table, and of different jobs.
fn noted(test: &TestDatabase, table: &str) -> (i64, i64) {
    let asked = format!("SELECT count(*), count(DISTINCT job) FROM public.{table}");
    test.client().row(&asked, &[])
}

#[test]
fn a_job_that_kills_its_process_is_dead_lettered_alone() {
    let (test, queue) = TestDatabase::with_orders();
    let mut all = vec![NewJob::new(&Finish {}).unwrap(); 30];
    all.insert(10, NewJob::new(&Abort {}).unwrap());
    let ids = ids(&queue.enqueue_jobs(&all).unwrap());
    let poison = ids[10];
    for crash in 1..=3 {
        WorkerProcess::start(&test, &queue).wait_for_its_end();
        assert_eq!(noted(&test, "begun"), (crash, 1));
        let lost = expire_leases(&mut test.client());
        let dead = lost.iter().filter(|lost| matches!(lost, Lost::Dead(_)));
        assert_eq!(dead.count(), usize::from(crash == 3), "{lost:?}");
        let expected = if crash == 3 { Lost::Dead } else { Lost::Back };
        assert!(lost.contains(&expected(poison)), "{lost:?}");
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
    no_drift(queue.database());
}
