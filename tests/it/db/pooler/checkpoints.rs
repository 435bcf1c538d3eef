//! Checkpoints and follow-ups through a pooler.

use redrive_tests::prelude::*;

use super::PooledDatabase;

#[test]
fn checkpoints_and_follow_ups_are_stored_through_a_pooler() {
    let shared = PooledDatabase::new();
    let queue = shared.queue();
    let gate = kept::<Gate>();
    let builder = lively(&queue).handle(|_: &Job<Finish>| Ok(()));
    let worker = builder.runs(
        move |job: &Job<Order>| match job.last_checkpoint::<i64>()? {
            None => {
                job.checkpoint(&1)?;
                gate.pass();
                job.checkpoint(&2)?;
                Err(Failure::retry("not yet"))
            }
            Some(2) => Ok(job.then(NewJob::new(&Finish {})?)?),
            Some(_) => Err(Failure::reject("an old checkpoint")),
        },
    );
    let id = queue.enqueue(&Order { number: 1 }).unwrap();
    gate.wait_for(1);
    wait_until("a renewal to store the checkpoint", SOON, || {
        let job = queue.database().admin().job(id).unwrap();
        job.is_some_and(|job| job.headers.contains_key("redrive-checkpoint"))
    });
    gate.open();
    done(&worker, 2);
    assert_eq!(finish(&queue, worker).stats.dead, 0);
    shared.nothing_is_left();
}
