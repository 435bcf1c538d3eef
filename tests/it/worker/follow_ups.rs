//! Follow-ups: jobs that are stored in the transaction that ends another one.

use redrive_tests::prelude::*;

fn follow_up() -> NewJob {
    NewJob::new(&Finish {}).unwrap()
}

/// Adds one follow-up in the queue `next`, which has no worker.
fn follow(job: &Job<Order>) -> Result<(), Failure> {
    job.then_in_queue("next", follow_up())?;
    Ok(())
}

/// Returns the live jobs of the queue `next`.
fn stored(db: &Database) -> Vec<LiveJob> {
    let next = JobFilter::new().queue("next");
    db.admin().jobs().list(&next).unwrap()
}

/// Makes the database refuse jobs of the kind `finish` with this statement.
fn on_finish(test: &TestDatabase, statement: &str) {
    test.sql("CREATE SEQUENCE public.tries");
    let of_finish = format!("IF NEW.kind = 'finish' THEN {statement}; END IF");
    test.before("INSERT ON redrive.jobs", &of_finish);
}

#[test]
fn follow_ups_are_stored_with_their_options_when_the_job_is_done() {
    let (_test, queue) = TestDatabase::with_orders();
    let worker = worker(&queue)
        .handle(|job: &Job<Order>| {
            job.then(follow_up())?;
            job.then_in_queue("next", follow_up().priority(7).max_attempts(2))?;
            let later = follow_up().delay(HOUR).unique("later");
            job.then_in_queue("next", later.header("trace", "4f2a"))?;
            Ok(())
        })
        .runs(|_: &Job<Finish>| Ok(()));
    queue.enqueue_many(&Order::up_to(3)).unwrap();
    // The worker is idle at times, so it is notified of follow-ups.
    done(&worker, 6);
    stop(worker);
    let mut next = stored(queue.database());
    next.sort_by_key(|job| (job.state == JobState::Delayed, job.id));
    let later = next.pop().expect("a delayed job");
    for ready in &next {
        assert_eq!((ready.state, &ready.unique_key), (JobState::Ready, &None));
        assert_eq!((ready.priority, ready.max_attempts), (7, 2));
    }
    assert_eq!((next.len(), later.state), (3, JobState::Delayed));
    assert_eq!((later.priority, later.max_attempts), (0, 5));
    assert_eq!(later.unique_key.as_deref(), Some("later"));
    assert_eq!(later.headers["trace"], "4f2a");
}

#[test]
fn an_attempt_that_does_not_succeed_stores_no_follow_up() {
    let (_test, queue) = TestDatabase::with_orders();
    let worker = worker(&queue).runs(|job: &Job<Order>| {
        follow(job)?;
        match (job.payload().number, job.attempt()) {
            (1, 1) => Err(Failure::retry("not yet")),
            (2, 1) => panic!("not yet"),
            (3, _) => Err(Failure::reject("never")),
            (4, _) => Ok(job.then(follow_up().priority(1001))?),
            _ => Ok(()),
        }
    });
    queue.enqueue_many(&Order::up_to(4)).unwrap();
    let counts = finish(&queue, worker).stats;
    assert_eq!((counts.done, counts.dead), (2, 2));
    assert_eq!(stored(queue.database()).len(), 2, "of each finished job");
}

#[test]
fn a_connection_lost_between_settle_and_follow_up_stores_each_once() {
    let (test, queue) = TestDatabase::with_orders();
    let ends = "IF nextval('public.tries') = 1 THEN PERFORM pg_terminate_backend(pg_backend_pid()); END IF";
    on_finish(&test, ends);
    let worker = worker(&queue).runs(follow);
    queue.enqueue_many(&Order::up_to(20)).unwrap();
    drained(&queue);
    done(&worker, 20);
    stop(worker);
    let tries = "SELECT last_value FROM public.tries";
    assert!(scalar(&mut test.client(), tries) > 20, "it was repeated");
    assert_eq!(stored(queue.database()).len(), 20);
}

#[test]
fn a_rejected_follow_up_fails_its_job_and_no_other() {
    let (test, queue) = TestDatabase::with_orders();
    on_finish(&test, "RAISE EXCEPTION 'no more of them'");
    queue.enqueue_many(&Order::up_to(20)).unwrap();
    let worker = worker(&queue).runs(|job: &Job<Order>| match job.payload().number {
        7 => {
            job.checkpoint(&7)?;
            follow(job)
        }
        8 => {
            job.checkpoint(&8)?;
            Err(Failure::reject("a broken neighbour").class("Neighbour"))
        }
        _ => Ok(job.then_in_queue("next", NewJob::raw("other", "{}")?)?),
    });
    let counts = finish(&queue, worker).stats;
    assert_eq!((counts.done, counts.retried, counts.dead), (18, 4, 2));
    assert_eq!(stored(queue.database()).len(), 18);
    // A verdict that is not rejected keeps its error and its checkpoint.
    let all = queue.listed(&LetterFilter::new()).into_iter();
    let (neighbours, letters): (Vec<_>, Vec<_>) =
        all.partition(|letter| &*letter.error_class == "Neighbour");
    for (letter, checkpoint, message) in [
        (&neighbours[0], "8", "a broken neighbour"),
        (&letters[0], "7", "settle jobs and store their follow-ups"),
    ] {
        has(&letter.error_message, message);
        let headers = letter.headers.as_deref().expect("a checkpoint").get();
        let expected = format!(r#"{{"redrive-checkpoint": "{checkpoint}"}}"#);
        assert_eq!(headers, expected);
    }
    let died = (letters[0].cause.as_str(), letters[0].attempts);
    assert_eq!(died, ("exhausted", 5));
    has(letters[0].error_detail.as_ref().unwrap(), "no more of them");
}

#[test]
fn a_job_can_be_followed_by_one_with_its_unique_key() {
    for in_transaction in [false, true] {
        let (test, queue) = TestDatabase::with_orders();
        let next = |job: &Job<Order>| -> Result<(), Failure> {
            if job.payload().number > 1 {
                let number = job.payload().number - 1;
                job.then(NewJob::new(&Order { number })?.unique("chain"))?;
            }
            Ok(())
        };
        let worker = worker(&queue);
        let worker = match in_transaction {
            true => worker.handle(move |job: &Job<Order>, _: &mut Transaction<'_>| next(job)),
            false => worker.handle(next),
        };
        let worker = worker.started();
        put(&queue, new_order(10).unique("chain"));
        done(&worker, 10);
        finish(&queue, worker);
        assert_eq!(test.count("unique_keys"), 0);
    }
}

#[test]
fn a_follow_up_whose_key_a_live_job_holds_is_not_stored() {
    let (_test, queue) = TestDatabase::with_orders();
    let worker = worker(&queue)
        .runs(|job: &Job<Order>| Ok(job.then_in_queue("next", follow_up().unique("one"))?));
    queue.enqueue_many(&Order::up_to(5)).unwrap();
    assert_eq!(finish(&queue, worker).stats.done, 5);
    assert_eq!(stored(queue.database()).len(), 1);
}

#[test]
fn a_rejected_follow_up_rolls_the_transaction_back() {
    let (test, queue) = TestDatabase::with_orders();
    test.sql("CREATE TABLE public.effects (number bigint)");
    on_finish(&test, "RAISE EXCEPTION 'no more of them'");
    let handler = |job: &Job<Order>, transaction: &mut Transaction<'_>| {
        transaction.execute("INSERT INTO public.effects VALUES (1)", &[])?;
        follow(job)
    };
    let worker = worker(&queue).handle(handler).started();
    queue.enqueue(&Order { number: 1 }).unwrap();
    let counts = finish(&queue, worker).stats;
    assert_eq!((counts.done, counts.retried, counts.dead), (0, 4, 1));
    let effects = "SELECT count(*) FROM public.effects";
    assert_eq!(scalar(&mut test.client(), effects), 0);
}
