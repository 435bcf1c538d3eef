//! Redrives that race each other, discards and workers.

use redrive_tests::prelude::*;

use super::live;

#[test]
fn eight_operators_never_redrive_a_letter_twice() {
    let (test, queue, ids) = TestDatabase::with_letters(2000);
    // The last of them discards the letters.
    let act = |(number, db): (usize, Database)| match number {
        7 => (vec![], db.discards(&of_orders())),
        _ => (db.redrives(&of_orders()).redriven, vec![]),
    };
    let answers = at_once(8, |number| (number, test.open()), act);
    let (redriven, discarded): (Vec<_>, Vec<_>) = answers.into_iter().unzip();
    let (redriven, discarded) = (redriven.concat(), discarded.concat());
    let different: BTreeSet<JobId> = redriven.iter().chain(&discarded).copied().collect();
    let taken = redriven.len() + discarded.len();
    assert_eq!(taken, different.len(), "a letter was taken by two");
    assert_eq!(different, ids.into_iter().collect(), "the sums add up");
    let live = live(&test);
    assert_eq!(live.len(), redriven.len());
    assert!(live.values().all(|jobs| *jobs == 1), "an id is live twice");
    assert!(redriven.iter().all(|id| live.contains_key(&id.get())));
    let redriving = in_state(&queue, LetterState::Redriving);
    assert_eq!(redriving, redriven.len());
    assert_eq!(in_state(&queue, LetterState::Open), 0);
}

#[test]
fn a_redrive_does_not_select_letters_that_die_again_meanwhile() {
    let (_test, queue) = TestDatabase::with_orders();
    let ids = letters(&queue, 3000);
    let worker = worker(&queue)
        .slots(2)
        .runs(|_: &Job<Order>| Err(Failure::reject("still broken")));
    let redriven = queue.redrives(&of_orders());
    finish(&queue, worker);
    assert_eq!(redriven.redriven.len(), ids.len());
    let again = queue.listed(&of_orders().limit(5000));
    let again = again.iter().filter(|letter| letter.generation == 1);
    assert_eq!(again.count(), ids.len());
}
