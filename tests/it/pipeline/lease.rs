//! Leases: a worker can change a job only while it holds the lease.

use redrive_tests::prelude::*;

/// The result of a handler after its gate.
type Verdict = fn(&Job<Order>) -> Result<(), Failure>;

/// A worker on a separate handle, whose handler counts, waits at a gate, and returns.
fn gated(test: &TestDatabase, tally: &Tally, gate: &Gate, verdict: Verdict) -> Worker {
    worker(&test.queue("orders")).runs(gate.counting(tally, verdict))
}

const SUCCEED: Verdict = |_| Ok(());
const REJECT: Verdict = |_| Err(Failure::reject("a stale result"));
const RETRY: Verdict = |_| Err(Failure::retry("a stale result"));
const SNOOZE: Verdict = |_| Err(Failure::snooze(Duration::ZERO));

/// The result of a stale worker has no effect on a redriven job or its letter, whether the present worker has completed
/// it or not.
#[test]
fn a_worker_that_lost_its_lease_cannot_end_retry_or_snooze_a_job() {
    let verdicts = [SUCCEED, REJECT, RETRY, SNOOZE].into_iter();
    for (verdict, is_done) in verdicts.flat_map(|it| [(it, false), (it, true)]) {
        let (test, queue, ids) = TestDatabase::with_letters(1);
        let id = ids[0];
        let (runs_a, runs_b) = (Tally::new(), Tally::new());
        let (gate_a, gate_b) = (Gate::new(), Gate::new());
        let a = gated(&test, &runs_a, &gate_a, verdict);
        queue.redrives(&only(id));
        let is = |state, crashes, attempts| {
            let job = queue.live(id);
            let found = (job.state, job.crashes, job.attempts);
            assert_eq!(found, (state, crashes, attempts));
            job
        };
        gate_a.wait_for(1);
        let job = is(JobState::Leased, 0, 1);
        assert!(job.worker.is_some() && job.host.is_some());
        // The reaper refunds what the claim charged.
        assert_eq!(expire_leases(&mut test.client()), [Lost::Back(id)]);
        let job = is(JobState::Ready, 1, 0);
        assert_eq!(job.history[1].outcome, "worker_lost");

        let b = gated(&test, &runs_b, &gate_b, SUCCEED);
        gate_b.wait_for(1);
        if is_done {
            gate_b.open();
            done(&b, 1);
        }
        gate_a.open();
        lost(&a, 1);
        if !is_done {
            is(JobState::Leased, 1, 1);
            assert_eq!(queue.letter(id).state, LetterState::Redriving);
            gate_b.open();
            done(&b, 1);
        }
        let counts = stop(a).stats;
        assert_eq!((counts.done, counts.retried, counts.dead), (0, 0, 0));
        assert_eq!((counts.snoozed, counts.lost), (0, 1));
        assert_eq!(stop(b).stats.lost, 0);
        assert_eq!((runs_a.of(id), runs_b.of(id)), (1, 1));
        assert_eq!(queue.letter(id).state, LetterState::Recovered);
        assert!(queue.is_drained().unwrap());
    }
}

#[test]
fn an_expired_lease_does_not_block_the_settle_of_another() {
    // A has two leases and loses one: the verdicts of the other count.
    let (test, queue) = TestDatabase::with_orders();
    let gate = Gate::new();
    let a = worker(&queue).slots(2).runs(gate.passing_to(REJECT));
    let [first, second] = [1, 2].map(|number| {
        let id = queue.enqueue(&Order { number: 1 }).unwrap();
        gate.wait_for(number);
        id
    });
    let taken = "DELETE FROM redrive.leases WHERE ids[1] = $1";
    test.client().change(taken, &[&first.get()]);
    gate.open();
    counted(&a, "one death and one refusal", |counts| {
        counts.dead == 1 && counts.lost == 1
    });
    stop(a);
    assert!(queue.database().dlq().get(first).unwrap().is_none());
    queue.letter(second);
}

#[test]
fn a_worker_that_cannot_renew_notifies_handlers_and_starts_no_job() {
    let (test, queue) = TestDatabase::with_orders();
    let (begun, saw_loss) = (Gate::new(), kept::<Gate>());
    begun.open();
    saw_loss.open();
    let see = begun.passing_to(move |job: &Job<Hold>| {
        wait_until("the loss", SOON, || job.is_cancelled());
        saw_loss.pass();
        Ok(())
    });
    let builder = lively(&queue).handle(see);
    let a = builder.runs(|_: &Job<Order>| Ok(()));
    queue.enqueue(&Hold {}).unwrap();
    begun.wait_for(1);
    let mut client = test.client();
    client.sql("UPDATE redrive.workers SET started_at = started_at - interval '1 hour'");
    // While another session locks the row of the worker, it cannot renew.
    let mut locker = test.begins("SELECT FROM redrive.workers FOR UPDATE");
    saw_loss.wait_for(1);
    // Others may be cut off as well, so it takes nothing from them.
    client.sql("INSERT INTO redrive.leases (lease_id, worker_id, queue, claimed_at, ids, kinds, payloads, enqueued_at)
             SELECT gen_random_uuid(), gen_random_uuid(), 'orders', now() - interval '1 hour', '{70}', '{other}',
                    ARRAY['{}'::json], ARRAY[now()];
         INSERT INTO redrive.dead_letters (queue, kind, cause, error_class, error_message, payload, enqueued_at)
             VALUES ('orders', 'order', 'rejected', 'Broken', 'broken', '{}', now())");
    wait_until("the chores after a reap", SOON, || {
        client.count("letter_deltas") == 0
    });
    assert_eq!(client.count("leases WHERE ids = '{70}'"), 1);
    let next = queue.enqueue(&Order { number: 1 }).unwrap();
    let job = queue.live(next);
    assert_eq!(job.attempts, 0, "claimed without trust in a lease");
    assert_eq!(job.state, JobState::Ready);
    locker.sql("ROLLBACK");
    // It recovers.
    done(&a, 2);
    stop(a);
}

/// A failover can lose an acknowledged settle. The last settle of the lease must then not end it,
/// whether it is a success or not.
#[test]
fn a_lease_is_kept_if_the_database_lost_a_partial_settle() {
    let answers: [Verdict; 2] = [|_| Ok(()), |_| Err(Failure::retry("not yet"))];
    for answer in answers {
        let (test, queue) = TestDatabase::with_orders();
        let ids = queue.enqueue_many(&Order::up_to(2)).unwrap();
        let gate = kept::<Gate>();
        let builder = worker(&queue).slots(2);
        let worker = builder.runs(move |job: &Job<Order>| match job.payload().number {
            1 => {
                gate.pass();
                answer(job)
            }
            _ => Ok(()),
        });
        done(&worker, 1);
        let mut client = test.client();
        let lost = "UPDATE redrive.leases SET done = '{}' WHERE job_count = 2";
        assert_eq!(client.execute(lost, &[]).unwrap(), 1, "they share a lease");
        gate.open();
        counted(&worker, "the slow one to be settled", |counts| {
            counts.lost + counts.retried == 1
        });
        assert_eq!(queue.live(ids[1]).state, JobState::Leased);
    }
}
