//! Logical replication: a publication of all tables rejects no statement of the library.

use redrive_tests::prelude::*;

#[test]
fn deaths_folds_and_redrive_runs_work_under_a_publication_of_all_tables() {
    let logged = Logged::start(LevelFilter::Warn);
    let (test, mut client) = TestDatabase::with_client();
    client.sql("CREATE PUBLICATION everything FOR ALL TABLES");
    let queue = test.queue("orders");
    letters(&queue, 20);
    let unique = new_order(99).unique("one");
    put(&queue, unique.delay(Duration::from_millis(1)));

    let all = of_orders().limit(100);
    let options = RunOptions::new().unthrottled();
    let runs = queue.database().dlq().runs();
    runs.create(&all, &options, &maria()).unwrap().unwrap();
    let worker = lively(&queue).runs(|job: &Job<Order>| match job.payload().number {
        number if number % 2 == 0 && job.attempt() == 1 => Err(Failure::retry("again")),
        _ => Ok(()),
    });
    wait_until("the run to end and its outcomes to be folded", SOON, || {
        in_state(&queue, LetterState::Recovered) == 20
            && client.count("letter_deltas") + client.count("run_deltas") == 0
            && client.count("redrive_runs WHERE state = 'running'") == 0
    });
    stop(worker);
    lacks(logged.lines().join("\n"), "replica identity");
}
