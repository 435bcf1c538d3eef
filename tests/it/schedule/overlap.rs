//! Overlapping jobs: a tick whose earlier job is live.

use redrive_tests::prelude::*;

use super::{due_since, every, history, read, set, tick, ticking};

#[test]
fn a_tick_is_skipped_while_an_earlier_job_is_live() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    let db = queue.database();
    set(db, &every("skips", HOUR).overlap(Overlap::Skip));
    set(db, &every("allows", HOUR));
    let run = |client: &mut Client, name: &str| {
        due_since(client, name, HOUR / 60);
        let (version, due_at) = read(client, name);
        tick(client, name, version, due_at).expect("a tick").len()
    };
    for (name, second) in [("allows", 1), ("skips", 0)] {
        let ticks = [run(&mut client, name), run(&mut client, name)];
        assert_eq!(ticks, [1, second], "{name}");
    }
    let [later, earlier] = &history(db, "skips")[..] else {
        panic!("two entries")
    };
    assert_eq!(later.outcome, TickOutcome::Overlapped);
    assert_eq!(earlier.outcome, TickOutcome::Fired);
    assert_eq!(later.job, earlier.job);
    assert_eq!(earlier.letter, None);

    let letter_of = |entry: usize| history(db, "skips")[entry].letter;
    // A job that waits for its retry is live. Its dead letter is not, and its redriven job is.
    let until_dead = worker(&queue).runs(|job: &Job<Order>| match job.schedule() {
        Some("skips") => Err(Failure::reject("broken")),
        _ => Ok(()),
    });
    died(&until_dead, 1);
    finish(&queue, until_dead);
    assert_eq!(letter_of(1), Some(LetterState::Open));
    db.redrives(&LetterFilter::new());
    assert_eq!(run(&mut client, "skips"), 0);
    let done = ticking(&queue);
    finish(&queue, done);
    assert_eq!(letter_of(2), Some(LetterState::Recovered));
    assert_eq!(run(&mut client, "skips"), 1);
    no_drift(db);
}
