//! Death: why a job became a letter, and what the letter tells.

use std::error::Error;
use std::fmt;
use std::num::ParseIntError;

use redrive::{Failure, Job, Letters, NewJob, Reason};
use redrive_tests::{Order, TestDatabase, drained, stats, stop, worker};

#[derive(Debug)]
struct AmountError(ParseIntError);

impl fmt::Display for AmountError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("cannot read the amount")
    }
}

impl Error for AmountError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Some(&self.0)
    }
}

fn amount() -> Result<i64, AmountError> {
    "USD ".parse().map_err(AmountError)
}

#[test]
fn a_job_that_used_up_its_attempts_tells_of_each_of_them() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let worker = worker(&queue)
        .version("1.4.2")
        .handle(|_: &Job<Order>| {
            amount()?;
            Ok(())
        })
        .start()
        .unwrap();
    let new = NewJob::new(&Order { number: 12 })
        .unwrap()
        .priority(5)
        .max_attempts(3);
    let id = queue.add(new).unwrap();
    drained(&queue);
    let counts = stop(worker).counts;
    assert_eq!((counts.retried, counts.dead, counts.done), (2, 1, 0));

    let letter = queue.database().letter(id).unwrap().expect("a letter");
    assert_eq!((&*letter.queue, &*letter.kind), ("orders", "order"));
    assert_eq!(
        (letter.reason, letter.state.as_str()),
        (Reason::Exhausted, "open")
    );
    assert_eq!(letter.payload.expect("JSON").get(), r#"{"number": 12}"#);
    assert_eq!(
        (letter.attempts, letter.max_attempts, letter.generation),
        (3, 3, 0)
    );
    assert_eq!(
        (letter.priority, letter.version.as_deref()),
        (5, Some("1.4.2"))
    );
    assert!(
        letter.error_class.ends_with("AmountError"),
        "{}",
        letter.error_class
    );
    assert_eq!(letter.error_message, "cannot read the amount");
    let detail = letter.error_detail.expect("a cause");
    assert!(
        detail.contains("caused by: invalid digit found in string"),
        "{detail}"
    );
    assert!(letter.worker.is_some() && letter.host.is_some());
    assert!(letter.enqueued_at < letter.died_at);

    assert_eq!(letter.history.len(), 3);
    for (at, attempt) in (1..).zip(&letter.history) {
        assert_eq!((attempt.generation, attempt.attempt), (0, at));
        let outcome = if at == 3 { "exhausted" } else { "failed" };
        assert_eq!(attempt.outcome, outcome);
        assert_eq!(
            attempt.error_message.as_deref(),
            Some("cannot read the amount")
        );
        assert_eq!(attempt.error_class.as_deref(), Some(&*letter.error_class));
        assert_eq!(attempt.version.as_deref(), Some("1.4.2"));
        assert!(attempt.run_ms.is_some() && attempt.ended_at.is_some() && attempt.worker.is_some());
    }
}

#[test]
fn a_rejected_job_dies_at_its_first_attempt() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let worker = worker(&queue)
        .handle(|job: &Job<Order>| match job.payload().number {
            1 => Err(Failure::reject("currency `USD ` is unknown")
                .class("Currency")
                .detail("the whole request")),
            _ => Err(Failure::reject_error(AmountError(
                "y".parse::<i64>().unwrap_err(),
            ))),
        })
        .start()
        .unwrap();
    let ids = queue.enqueue_many(&Order::up_to(2)).unwrap();
    drained(&queue);
    assert_eq!(stop(worker).counts.dead, 2);
    let worded = queue.database().letter(ids[0]).unwrap().expect("a letter");
    assert_eq!(
        (worded.reason, worded.attempts, worded.history.len()),
        (Reason::Rejected, 1, 1)
    );
    assert_eq!(
        (&*worded.error_class, &*worded.error_message),
        ("Currency", "currency `USD ` is unknown")
    );
    assert_eq!(worded.error_detail.as_deref(), Some("the whole request"));
    assert_eq!(worded.history[0].outcome, "rejected");
    let error = queue.database().letter(ids[1]).unwrap().expect("a letter");
    assert_eq!(error.reason, Reason::Rejected);
    assert!(error.error_class.ends_with("AmountError"));
    assert!(
        error
            .error_detail
            .expect("a cause")
            .contains("invalid digit")
    );
}

#[test]
fn a_panic_tells_its_message_and_its_place() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let worker = worker(&queue)
        .handle(|job: &Job<Order>| {
            assert!(
                job.payload().number != 1,
                "order {} is cursed",
                job.payload().number
            );
            Ok(())
        })
        .start()
        .unwrap();
    let id = queue
        .add(NewJob::new(&Order { number: 1 }).unwrap().max_attempts(2))
        .unwrap();
    queue.enqueue(&Order { number: 2 }).unwrap();
    drained(&queue);
    let counts = stop(worker).counts;
    assert_eq!(
        (counts.retried, counts.dead, counts.done),
        (1, 1, 1),
        "the slot survives"
    );
    let letter = queue.database().letter(id).unwrap().expect("a letter");
    assert_eq!(
        (letter.reason, &*letter.error_class),
        (Reason::Exhausted, "panic")
    );
    assert!(
        letter.error_message.contains("order 1 is cursed"),
        "{}",
        letter.error_message
    );
    assert!(
        letter.error_message.contains("dead.rs:"),
        "{}",
        letter.error_message
    );
}

#[test]
fn an_undecodable_payload_dies_at_once_and_the_next_job_runs() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let worker = worker(&queue)
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .unwrap();
    let wrong = queue
        .add(NewJob::raw("order", r#"{"number": "seven"}"#).unwrap())
        .unwrap();
    let empty = queue.add(NewJob::raw("order", "null").unwrap()).unwrap();
    queue.enqueue(&Order { number: 1 }).unwrap();
    drained(&queue);
    let counts = stop(worker).counts;
    assert_eq!((counts.dead, counts.done, counts.retried), (2, 1, 0));
    let letter = queue.database().letter(wrong).unwrap().expect("a letter");
    assert_eq!((letter.reason, letter.attempts), (Reason::Undecodable, 1));
    assert!(
        letter.error_message.contains("invalid type"),
        "{}",
        letter.error_message
    );
    assert!(
        letter.error_class.ends_with("Order"),
        "{}",
        letter.error_class
    );
    assert_eq!(
        letter.payload.expect("kept").get(),
        r#"{"number": "seven"}"#
    );
    let letter = queue.database().letter(empty).unwrap().expect("a letter");
    assert_eq!(letter.reason, Reason::Undecodable);
}

#[test]
fn a_payload_whose_decoding_panics_is_undecodable() {
    #[derive(serde::Serialize)]
    struct Cursed {}
    impl redrive::Payload for Cursed {
        const KIND: &'static str = "cursed";
    }
    impl<'de> serde::Deserialize<'de> for Cursed {
        fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Cursed, D::Error> {
            panic!("in Deserialize")
        }
    }
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let worker = worker(&queue)
        .handle(|_: &Job<Cursed>| Ok(()))
        .handle(|_: &Job<Order>| Ok(()))
        .start()
        .unwrap();
    let id = queue.enqueue(&Cursed {}).unwrap();
    queue.enqueue(&Order { number: 1 }).unwrap();
    drained(&queue);
    assert_eq!(stop(worker).counts.done, 1);
    let letter = queue.database().letter(id).unwrap().expect("a letter");
    assert_eq!(letter.reason, Reason::Undecodable);
    assert!(
        letter.error_message.contains("in Deserialize"),
        "{}",
        letter.error_message
    );
}

#[test]
fn one_lease_settles_all_verdicts_each_for_its_own_job() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let ids = queue.enqueue_many(&Order::up_to(400)).unwrap();
    let worker = worker(&queue)
        .slots(4)
        .handle(|job: &Job<Order>| match job.payload().number % 4 {
            0 => Ok(()),
            1 => Err(Failure::reject(format!("order {}", job.payload().number))),
            2 if job.attempt() == 1 => Err(Failure::retry("once")),
            _ => Ok(()),
        })
        .start()
        .unwrap();
    drained(&queue);
    let counts = stop(worker).counts;
    assert_eq!(
        (counts.done, counts.dead, counts.retried, counts.lost),
        (300, 100, 100, 0)
    );
    let letters = queue
        .database()
        .letters(&Letters::queue("orders").limit(1000))
        .unwrap();
    assert_eq!(letters.len(), 100);
    for letter in letters {
        let place = ids
            .iter()
            .position(|id| *id == letter.id)
            .expect("one of ours")
            + 1;
        assert_eq!(letter.error_message, format!("order {place}"));
        assert_eq!(
            letter.payload.expect("JSON").get(),
            format!(r#"{{"number": {place}}}"#)
        );
    }
}

#[test]
fn the_stats_group_open_letters_by_what_went_wrong() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let worker = worker(&queue)
        .handle(|job: &Job<Order>| match job.payload().number {
            1..=5 => Err(Failure::reject(format!("bad {}", job.payload().number)).class("Bad")),
            6..=7 => Err(Failure::reject("worse").class("Worse")),
            _ => panic!("worst"),
        })
        .start()
        .unwrap();
    let jobs = Order::up_to(8)
        .iter()
        .map(|order| NewJob::new(order).unwrap().max_attempts(1))
        .collect();
    queue.add_many(jobs).unwrap();
    drained(&queue);
    stop(worker);
    let stats = stats(queue.database(), "orders").expect("letters");
    assert_eq!(
        (stats.open, stats.ready, stats.delayed, stats.leased),
        (8, 0, 0, 0)
    );
    let groups: Vec<(Reason, &str, u64)> = stats
        .failures
        .iter()
        .map(|group| (group.reason, &*group.error_class, group.letters))
        .collect();
    assert_eq!(
        groups,
        [
            (Reason::Rejected, "Bad", 5),
            (Reason::Rejected, "Worse", 2),
            (Reason::Exhausted, "panic", 1)
        ]
    );
    assert_eq!(stats.failures[0].sample, "bad 5", "the newest");
    assert!(stats.failures[0].first_at < stats.failures[0].last_at);
}

#[test]
fn letters_are_listed_newest_first_page_by_page() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let worker = worker(&queue)
        .handle(|job: &Job<Order>| {
            Err(
                Failure::reject("no").class(if job.payload().number % 2 == 0 {
                    "Even"
                } else {
                    "Odd"
                }),
            )
        })
        .start()
        .unwrap();
    let ids = queue.enqueue_many(&Order::up_to(25)).unwrap();
    drained(&queue);
    stop(worker);
    let db = queue.database();
    let mut listed = Vec::new();
    let mut page = Letters::queue("orders").limit(10);
    loop {
        let letters = db.letters(&page).unwrap();
        let Some(last) = letters.last() else { break };
        assert!(letters.len() <= 10);
        page = page.after(last.id);
        listed.extend(letters.iter().map(|letter| (letter.died_at, letter.id)));
    }
    assert_eq!(listed.len(), 25);
    assert!(
        listed.is_sorted_by(|newer, older| newer > older),
        "the newest death first"
    );
    assert!(
        ids.iter()
            .all(|id| listed.iter().any(|(_, listed)| listed == id))
    );

    let count = |which: &Letters| db.letters(which).unwrap().len();
    assert_eq!(count(&Letters::all().error_class("Even")), 12);
    assert_eq!(
        count(&Letters::all().kind("order").reason(Reason::Rejected)),
        25
    );
    assert_eq!(count(&Letters::all().reason(Reason::Exhausted)), 0);
    assert_eq!(count(&Letters::queue("other")), 0);
    assert_eq!(count(&Letters::ids([ids[3], ids[4]])), 2);
}
