//! Groups that a letter holds: nothing behind it runs until an operator decides.

use super::*;

/// A worker that rejects order 1 until its payload is edited, and finishes the others.
fn rejecting(queue: &Queue, finished: &'static Finished) -> Worker {
    let rejected = |job: &Job<Order>| match (job.payload().number, job.generation()) {
        (1, 0) => Err(Failure::reject("broken")),
        _ => Ok(()),
    };
    let handler = finished.noting_unless(rejected);
    worker(queue).slots(2).runs(handler)
}

/// A queue whose group `a` is held by the letter of its first job; three jobs wait behind it.
fn with_letter() -> (TestDatabase, Queue, Worker, &'static Finished, JobId) {
    let (test, queue) = with_policy(HOLD);
    let ids = enqueue_rounds(&queue, &["a"], 4);
    let finished = kept::<Finished>();
    let worker = rejecting(&queue, finished);
    test.reaches("held_groups", 1);
    // Other groups continue meanwhile.
    enqueue(&queue, "b", 2);
    wait_until("the other group to finish", SOON, || {
        finished.of("b") == [2]
    });
    assert!(finished.of("a").is_empty());
    (test, queue, worker, finished, ids[0])
}

#[test]
fn a_redriven_letter_runs_before_its_followers() {
    for edits in [false, true] {
        let (test, queue, worker, finished, letter) = with_letter();
        let one = only(letter);
        if edits {
            let edit = Edit::merge(r#"{"number": 10}"#).unwrap();
            queue.database().dlq().edit(&one, &edit, &maria()).unwrap();
        }
        assert_eq!(queue.redrives(&one).redriven, [letter]);
        let first = if edits { 10 } else { 1 };
        all_end(&test, &queue, worker, finished, &[first, 2, 3, 4]);
    }
}

/// A letter has no key, so the enqueue of its job's successor is stored.
#[test]
fn a_redriven_letter_leaves_its_key_to_the_job_that_waits_behind_it() {
    for delay in [Duration::ZERO, HOUR] {
        let (test, queue) = with_policy(HOLD);
        let keyed = |number| new_order(number).group("a").unique("k");
        let letter = put(&queue, keyed(1));
        let finished = kept::<Finished>();
        let worker = rejecting(&queue, finished);
        test.reaches("held_groups", 1);
        let next = put(&queue, keyed(2).delay(delay));
        assert_ne!(next, letter);
        let dlq = queue.database().dlq();
        let one = only(letter);
        let preview = dlq.preview_redrive(&one, &RedriveOptions::new()).unwrap();
        assert_eq!((preview.letters, preview.left_out), (1, vec![]));
        assert_eq!(dlq.redrive(&one, &maria()).unwrap().redriven, [letter]);
        let third = queue.enqueue_job(keyed(3)).unwrap();
        assert_eq!(third, Enqueued::Existing(next));
        wait_until("the letter's job to finish", SOON, || {
            !finished.of("a").is_empty()
        });
        test.all_due();
        all_end(&test, &queue, worker, finished, &[1, 2]);
        assert_eq!(test.count("unique_keys"), 0);
    }
}

#[test]
fn a_letter_that_dies_again_holds_its_group_again() {
    let (test, queue, worker, finished, letter) = with_letter();
    stop(worker);
    let rejected = |job: &Job<Order>| match (job.payload().number, job.generation()) {
        (1, 0 | 1) => Err(Failure::reject("still broken")),
        _ => Ok(()),
    };
    let worker = redrive_tests::worker(&queue).runs(finished.noting_unless(rejected));
    queue.redrives(&only(letter));
    test.reaches("held_groups", 1);
    assert!(finished.of("a").is_empty());
    queue.redrives(&only(letter));
    all_end(&test, &queue, worker, finished, &[1, 2, 3, 4]);
}

/// A way in which a letter stops holding its group.
type End = fn(&TestDatabase, &Queue, JobId);

#[test]
fn a_letter_that_leaves_lets_its_group_continue() {
    let ends: [End; 4] = [
        |_, queue, letter| _ = queue.discards(&only(letter)),
        |_, queue, letter| {
            let one = only(letter);
            queue.database().dlq().erase(&one, &maria()).unwrap();
        },
        |test, _, letter| {
            let delete = "DELETE FROM redrive.dead_letters WHERE id = $1";
            test.client().change(delete, &[&letter.get()]);
        },
        |test, _, letter| {
            let move_away = "SELECT redrive.send_back(ARRAY[$1::bigint], \
                                 '{\"event\": \"redriven\"}', 'elsewhere')";
            test.client().change(move_away, &[&letter.get()]);
        },
    ];
    for end in ends {
        let (test, queue, worker, finished, letter) = with_letter();
        end(&test, &queue, letter);
        all_end(&test, &queue, worker, finished, &[2, 3, 4]);
    }
}

#[test]
fn a_released_group_continues_without_the_letter_which_stays_open() {
    let (test, queue, worker, finished, letter) = with_letter();
    assert_eq!(queue.release_group("b", &maria()).unwrap(), None);
    assert_eq!(queue.release_group("a", &maria()).unwrap(), Some(letter));
    assert_eq!(queue.release_group("a", &maria()).unwrap(), None);
    all_end(&test, &queue, worker, finished, &[2, 3, 4]);
    let open = queue.listed(&LetterFilter::new());
    assert_eq!(open.len(), 1);
    assert_eq!((open[0].id, open[0].cause), (letter, DeathCause::Rejected));
    let acts = test.count("audit WHERE verb = 'release_group' AND letters = 1");
    assert_eq!(acts, 1);
    assert_eq!(queue.release_group("", &maria()).unwrap(), None);
}

#[test]
fn a_repair_leaves_the_turn_to_a_letter_that_is_redriven_meanwhile() {
    let (test, queue) = with_policy(HOLD);
    let ids = enqueue_rounds(&queue, &["a", "b"], 1);
    let worker = rejecting(&queue, kept::<Finished>());
    test.reaches("held_groups", 2);
    stop(worker);
    let (letter, lost) = (ids[0], ids[1]);
    queue.redrives(&only(lost));
    let mut client = test.client();
    client.change("DELETE FROM redrive.jobs WHERE id = $1", &[&lost.get()]);
    let mut tx = test.locks(lost);
    let sends = "SELECT id FROM redrive.send_back(ARRAY[$1::bigint], '{}')";
    tx.ask::<i64>(sends, &[&letter.get()]);
    let repair = || queue.database().admin().repair(&maria()).unwrap();
    let found = held_up(&test, repair, || tx.sql("COMMIT"));
    let places: Vec<_> = found.iter().map(|one| (&*one.kind, one.places)).collect();
    assert_eq!(places, [("letter", 1), ("counter", 1)]);
    assert_eq!(queue.letter(letter).state, LetterState::Redriving);
    test.reaches("held_groups", 1);
    assert_eq!(client.count("group_slots"), 2);
}
