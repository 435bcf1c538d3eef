//! Letters that die after each redrive, whatever of.

use redrive_tests::prelude::*;

/// Runs the job of the letter, which dies of `error`, and returns the state of the letter.
fn die(queue: &Queue, id: JobId, error: &'static str) -> LetterState {
    work_off(queue, move |_: &Job<Order>| -> Result<(), Failure> {
        Err(Failure::reject(error))
    });
    queue.letter(id).state
}

#[test]
fn alternating_errors_are_quarantined_at_the_tenth_failed_redrive() {
    let (_test, queue) = TestDatabase::with_orders();
    let id = put(&queue, new_order(1));
    die(&queue, id, "the gateway is closed");
    let only = only(id);
    let redrive = || queue.redrives(&only);
    for (failed, error) in (1..=10).zip(["no route", "no answer"].into_iter().cycle()) {
        assert_eq!(redrive().redriven, [id]);
        let state = match failed {
            10 => LetterState::Quarantined,
            _ => LetterState::Open,
        };
        assert_eq!(die(&queue, id, error), state, "{failed}");
        let letter = queue.letter(id);
        assert_eq!((letter.alike, letter.failed_redrives), (0, failed));
    }
    // The letter remembers the attempts of all generations, in order.
    let all: Vec<(u32, &str)> = (0..=10).map(|redriven| (redriven, "rejected")).collect();
    assert_eq!(outcomes(&queue.letter(id)), all);
    assert_eq!(redrive().skipped, [(id, Skip::Quarantined)]);
    // Force gives it one more attempt.
    let forced = queue.redrives_with(&only, &RedriveOptions::new().force());
    assert_eq!(forced.redriven, [id]);
    assert_eq!(die(&queue, id, "no route"), LetterState::Quarantined);
}

#[test]
fn redrives_by_a_policy_do_not_count() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    let id = letters(&queue, 1)[0];
    client.sql("UPDATE redrive.dead_letters SET failed_redrives = 9");
    queue.redrives(&only(id));
    client.sql("UPDATE redrive.dead_letters SET policy_id = 1");
    assert_eq!(die(&queue, id, "no route"), LetterState::Open);
    assert_eq!(queue.letter(id).failed_redrives, 9);
}

#[test]
fn a_diversion_between_two_deaths_neither_counts_nor_ends_the_count() {
    let (test, queue) = TestDatabase::with_orders();
    let id = letters(&queue, 1)[0];
    for alike in [1, 2] {
        queue.redrives(&only(id));
        let call = "SELECT redrive.bury_waiting(ARRAY(SELECT t FROM redrive.take_waiting('{}', NULL, NULL, 1) t),
                    'diverted', 'diverted', 'behind another letter')";
        test.sql(call);
        assert_eq!(queue.letter(id).alike, alike - 1);
        queue.redrives(&only(id));
        die(&queue, id, "broken");
        assert_eq!(queue.letter(id).alike, alike);
    }
}
