//! Redrives that race each other, discards and workers.

use redrive_tests::prelude::*;

use super::live;

/// Runs concurrent operators on the same letters and returns what each of them did.
fn redriven(test: &TestDatabase, operators: usize, filter: &LetterFilter) -> Vec<Redriven> {
    at_once(operators, |_| test.open(), |db| db.redrives(filter))
}

#[test]
fn eight_operators_never_redrive_a_letter_twice() {
    let (test, queue, ids) = TestDatabase::with_letters(2000);
    let answers = redriven(&test, 8, &of_orders());
    let redriven = answers.into_iter().flat_map(|answer| answer.redriven);
    let redriven: Vec<JobId> = redriven.collect();
    let different: BTreeSet<JobId> = redriven.iter().copied().collect();
    let is_once = redriven.len() == different.len();
    assert!(is_once, "a letter was redriven by two");
    assert_eq!(different, ids.iter().copied().collect(), "the sums add up");
    let live = live(&test);
    assert_eq!(live.len(), 2000);
    assert!(live.values().all(|jobs| *jobs == 1), "an id is live twice");
    let db = queue.database();
    assert_eq!(letters_in(db, "orders", LetterState::Redriving), 2000);
    assert_eq!(letters_in(db, "orders", LetterState::Open), 0);
}

#[test]
fn a_redrive_that_races_a_discard_leaves_each_letter_one_outcome() {
    let (test, _, _) = TestDatabase::with_letters(2000);
    let prepare = |number| (number, test.open());
    let act = |(number, db): (usize, Database)| match number {
        0 => db.redrives(&of_orders()).redriven,
        _ => db.discards(&of_orders()),
    };
    let [redriven, discarded] = at_once(2, prepare, act).try_into().expect("two answers");
    assert_eq!(redriven.len() + discarded.len(), 2000);
    assert!(redriven.iter().all(|id| !discarded.contains(id)));
    let live = live(&test);
    assert_eq!(live.len(), redriven.len());
    assert!(discarded.iter().all(|id| !live.contains_key(&id.get())));
}

#[test]
fn a_redrive_does_not_select_letters_that_die_again_meanwhile() {
    let (_test, queue) = TestDatabase::with_orders();
    // Several batches, so that letters of the first die again before the last is selected.
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
