//! Log lines about attempts: one shape, with the fields an operator searches for.

use log::Level;
use redrive_tests::prelude::*;

#[test]
fn attempts_are_logged_with_their_fields_and_with_messages_only_if_the_program_wants_it() {
    let logged = Logged::start(LevelFilter::Debug);
    for wanted in [false, true] {
        let (_test, queue) = TestDatabase::with_orders();
        let gate = Gate::new();
        gate.open();
        let builder = worker(&queue).backoff(Backoff::fixed(HOUR));
        let builder = builder.redact(|text| text.replace("4111", "****"));
        let builder = builder.handle(|job: &Job<Order>| match job.payload().number {
            1 => Err(Failure::retry("card 4111\u{1b}[1m\nand more")),
            2 => Err(Failure::snooze(Duration::from_mins(1))),
            3 => Err(Failure::outage("card 4111")),
            _ => Err(Failure::reject("card 4111").class("Card\nClosed")),
        });
        let builder = builder.handle(gate.passing_to(|job: &Job<Hold>| {
            wait_until("the stop", SOON, || job.is_cancelled());
            Err(Failure::retry("card 4111"))
        }));
        let worker = builder.log_messages(wanted).started();
        let ids = queue.enqueue_many(&Order::up_to(4)).unwrap();
        counted(&worker, "all verdicts", |counts| {
            counts.retried + counts.snoozed + counts.dead == 3 && counts.outages > 0
        });
        queue.enqueue(&Hold {}).unwrap();
        gate.wait_for(1);
        worker.stop(Duration::ZERO).unwrap();
        // The driver logs parameters at this level.
        let lines = logged.lines().into_iter();
        let lines = lines.filter(|line| !line.contains("tokio_postgres"));
        let lines: Vec<String> = lines.collect();
        for (id, level, text) in [
            (ids[0], Level::Info, "failed, retrying in 3600s: "),
            (ids[1], Level::Debug, "snoozed, running again in 60s"),
            (ids[2], Level::Debug, "met an outage, retrying in "),
            (ids[3], Level::Warn, "dead (rejected): "),
        ] {
            let fields = format!(" kind=order job={id} attempt=1/5: {text}");
            let line = lines.iter().find(|line| line.contains(&fields));
            let line = line.unwrap_or_else(|| panic!("{fields:?} in {lines:#?}"));
            assert!(line.starts_with(level.as_str()), "{line}");
            has(line, ": queue=orders worker=");
        }
        let about = |text: &str| lines.iter().any(|line| line.contains(text));
        assert!(!about("4111") && !about("and more"), "{lines:#?}");
        assert_eq!(about("****"), wanted, "{lines:#?}");
        for text in [
            ": failed, retrying in 3600s: Retry: card **** [1m",
            ": dead (rejected): Card Closed: card ****",
        ] {
            assert!(!wanted || about(text), "{text} in {lines:#?}");
        }
    }
}

#[test]
fn a_worker_warns_once_of_ready_jobs_that_no_live_worker_handles() {
    let logged = Logged::start(LevelFilter::Warn);
    let (test, queue) = TestDatabase::with_orders();
    let added = "INSERT INTO redrive.jobs (segment, queue, kind, payload) \
                 SELECT 0, q, k, '{}' FROM (VALUES ('orders', 'refund'), ('orders', 'refund'), ('mail', 'letter'), \
                     ('orders', E'a\\nb')) v (q, k)";
    test.sql(added);
    let worker = lively(&queue).runs(|_: &Job<Order>| Ok(()));
    let unhandled = || -> Vec<String> {
        let lines = logged.lines().into_iter();
        lines
            .filter(|line| line.contains("no live worker"))
            .collect()
    };
    wait_until("the warning", SOON, || !unhandled().is_empty());
    stop(worker);
    let warning = ": no live worker handles ready jobs of kinds (2): `a b`, `refund`";
    has(unhandled().concat(), warning);
    assert_eq!(unhandled().len(), 1);
}
