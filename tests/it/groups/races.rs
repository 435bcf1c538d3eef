//! A redrive meets a change of the turn of its group: the job either has the turn or waits, but not both.

use super::divert::Diverted;
use super::*;

const DIVERTED: &str = "dead_letters WHERE cause = 'diverted' AND group_key = 'a'";

/// Two orders of the group `a`, of which the first is a letter and the second diverted, without a worker.
fn stopped() -> (TestDatabase, Queue, &'static Finished, Vec<JobId>) {
    let diverted = Diverted::of(2);
    stop(diverted.worker);
    (
        diverted.test,
        diverted.queue,
        diverted.finished,
        diverted.ids,
    )
}

/// Lets a redrive wait after it has chosen where its jobs go, until the returned session unlocks the gate.
fn close_gate(test: &TestDatabase) -> Client {
    let pass = "IF (NEW.meta).generation > 0 THEN PERFORM pg_advisory_xact_lock_shared(1); END IF";
    test.before("INSERT ON redrive.jobs", pass);
    let mut holder = test.client();
    holder.sql("SELECT pg_advisory_lock(1)");
    holder
}

/// Whether a session waits for the gate, or for a row or transaction of another one.
fn is_waiting(client: &mut Client, at_gate: &str) -> bool {
    let query = "SELECT EXISTS (SELECT FROM pg_locks WHERE NOT granted AND (locktype = 'advisory') = ($1 = 'gate') \
                 AND pid IN (SELECT pid FROM pg_stat_activity WHERE datname = current_database()))";
    client.ask(query, &[&at_gate])
}

/// Redrives a letter, and calls `other` once the redrive has chosen where its job goes. Returns the answer.
fn during_a_redrive<T: Send>(
    test: &TestDatabase,
    queue: &Queue,
    letter: JobId,
    other: impl FnOnce() -> T + Send,
) -> T {
    let (mut holder, mut observer) = (close_gate(test), test.client());
    let answer = thread::scope(|scope| {
        let redrive = scope.spawn(|| queue.redrives(&only(letter)));
        wait_until("the redrive to reach the gate", SOON, || {
            is_waiting(&mut observer, "gate")
        });
        let other = scope.spawn(other);
        wait_until("the other call to end or to wait", SOON, || {
            other.is_finished() || is_waiting(&mut observer, "row")
        });
        holder.sql("SELECT pg_advisory_unlock(1)");
        assert_eq!(redrive.join().unwrap().redriven, [letter]);
        other.join().unwrap()
    });
    // A job could run although its group has no turn for it, or could not although it has.
    let has_turn = "EXISTS (SELECT FROM redrive.group_slots s WHERE s.job_id = j.id)";
    let misplaced = format!("jobs j WHERE (j.segment = 8) = {has_turn}");
    assert_eq!(observer.count(&misplaced), 0);
    answer
}

#[test]
fn a_release_during_a_redrive_lets_no_second_job_of_the_group_run() {
    let (test, queue) = with_policy(HOLD);
    let ids = enqueue_rounds(&queue, &["a"], 2);
    let worker = worker(&queue).runs(|_: &Job<Order>| Err(Failure::reject("broken")));
    test.reaches("held_groups", 1);
    stop(worker);
    during_a_redrive(&test, &queue, ids[0], || {
        queue.release_group("a", &maria()).unwrap()
    });
}

#[test]
fn a_letter_that_is_redriven_while_it_takes_the_turn_runs() {
    let (test, queue, finished, ids) = stopped();
    let discarded = during_a_redrive(&test, &queue, ids[1], || queue.discards(&only(ids[0])));
    assert_eq!(discarded, [ids[0]]);
    let worker = finishing(&queue, finished);
    all_end(&test, &queue, worker, finished, &[2]);
}

#[test]
fn a_letter_of_another_job_does_not_end_a_diversion_in_progress() {
    let (test, queue, finished, ids) = stopped();
    let mut observer = test.client();
    // The second job becomes a letter again, because the first letter is still open.
    queue.redrives(&only(ids[1]));
    let delayed = put(&queue, order("a", 3).delay(HOUR));
    let mut diverting = test.begins("");
    let divert = "SELECT redrive.divert('orders', ARRAY['a'], 10)";
    assert_eq!(scalar(&mut diverting, divert), 1);
    thread::scope(|scope| {
        // Its letter is of the group, but the job had no turn.
        let cancel = scope.spawn(|| queue.cancels(delayed));
        wait_until("the cancel to end or to wait", SOON, || {
            cancel.is_finished() || is_waiting(&mut observer, "row")
        });
        diverting.sql("COMMIT");
        assert_eq!(cancel.join().unwrap(), Cancelled::Dead);
    });

    // The second letter takes the turn of the first, and diverts the jobs behind it.
    queue.redrives(&only(ids[0]));
    let worker = finishing(&queue, finished);
    wait_until("the first job to run", SOON, || finished.of("a") == [1]);
    let later = enqueue(&queue, "a", 4);
    finish(&queue, worker);
    assert_eq!(queue.letter(later).cause.as_str(), "diverted");
    assert_eq!(finished.of("a"), [1]);
}

#[test]
fn an_open_transaction_that_keeps_a_group_from_being_diverted_keeps_no_claim_waiting() {
    for locking in [
        "DELETE FROM redrive.diverted_groups",
        "UPDATE redrive.group_policies SET on_death = 'hold'",
        // A redrive may hold the letter of a job that waits again, and waits for the turn of the group.
        "SELECT FROM redrive.dead_letters WHERE cause = 'diverted' FOR UPDATE",
    ] {
        let (test, queue, finished, ids) = stopped();
        let mut observer = test.client();
        // Its job waits behind the first letter. Each claim of the other group tries to divert it.
        queue.redrives(&only(ids[1]));
        let mut open = test.begins(locking);
        let worker = finishing(&queue, finished);
        for number in 1..=3 {
            let other = enqueue(&queue, "b", number);
            wait_until("the job of the other group to end", SOON, || {
                assert!(!is_waiting(&mut observer, "row"), "{locking}");
                queue.database().admin().job(other).unwrap().is_none()
            });
        }
        let diverted = format!("{DIVERTED} AND state = 'open'");
        assert_eq!(observer.count(&diverted), 0, "{locking}");
        open.sql("ROLLBACK");
        observer.reaches(&diverted, 1);
        stop(worker);
    }
}
