//! Every way in which a job of a group can end or change frees or keeps its turn.

use redrive::testing::run_next;

use super::claim::{Place, claim};
use super::*;

/// Changes one job as an operator does.
#[track_caller]
fn change(queue: &Queue, id: JobId, change: JobChange) {
    let jobs = queue.database().admin().jobs();
    let one = JobFilter::new().ids([id]);
    jobs.change(&one, change, &maria()).unwrap();
}

#[test]
fn a_cancelled_waiting_job_changes_nothing_for_its_group() {
    let (test, queue) = with_policy(HOLD);
    let ids = enqueue_rounds(&queue, &["a"], 4);
    let jobs = queue.database().admin().jobs();
    jobs.cancel(ids[1], &maria()).unwrap();
    change(&queue, ids[2], JobChange::Cancel);
    run_all(&test, &queue, &[1, 4]);
}

#[test]
fn a_job_that_is_cancelled_while_it_has_the_turn_does_not_hold_its_group() {
    for in_bulk in [true, false] {
        for cause in [Failure::retry("down"), Failure::reject("broken")] {
            let (test, queue) = with_policy(HOLD);
            let ids = enqueue_rounds(&queue, &["a"], 2);
            let cause = cause.after(HOUR);
            let mut client = test.client();
            let mut tx = client.transaction().unwrap();
            let fails = move |_: &Job<Order>| Err::<(), _>(cause.clone());
            let handlers = Handlers::new().handle(fails);
            assert!(run_next(&mut tx, &handlers).unwrap().is_some());
            tx.commit().unwrap();
            // It waits for its retry, or after a redrive.
            queue.redrives(&only(ids[0]));
            assert_eq!(client.count("group_slots"), 1);
            if in_bulk {
                change(&queue, ids[0], JobChange::Cancel);
            } else {
                let jobs = queue.database().admin().jobs();
                jobs.cancel(ids[0], &maria()).unwrap();
            }
            run_all(&test, &queue, &[2]);
        }
    }
}

#[test]
fn a_change_of_a_waiting_job_keeps_it_waiting() {
    let (test, queue) = with_policy(CONTINUE);
    let ids = enqueue_rounds(&queue, &["a"], 3);
    let mut client = test.client();
    assert_eq!(claim(&mut client, 5, &mut Place::default()), [ids[0].get()]);
    change(&queue, ids[1], JobChange::SetPriority(9));
    change(&queue, ids[2], JobChange::SetPriority(9));
    assert_eq!(client.count("jobs_waiting"), 2);
    assert_eq!(client.count("group_slots"), 1);
    // Released jobs keep their turn, and a change does not move them back.
    expire_leases(&mut client);
    client.sql("UPDATE redrive.jobs SET meta.crashes = 0 WHERE segment < 8");
    change(&queue, ids[0], JobChange::SetPriority(9));
    assert_eq!(client.count("jobs_waiting"), 2);
    assert_eq!(client.count("group_slots"), 1);
    run_all(&test, &queue, &[1, 2, 3]);
}

#[test]
fn a_change_of_a_suspect_gives_it_no_turn() {
    let (test, queue) = with_policy(CONTINUE);
    let ids = enqueue_rounds(&queue, &["a"], 3);
    let late = put(&queue, order("a", 4).delay(HOUR));
    let mut client = test.client();
    assert_eq!(claim(&mut client, 1, &mut Place::default()), [ids[0].get()]);
    // As after the loss of a worker that had claimed them as followers.
    client.sql("UPDATE redrive.jobs SET meta.crashes = 1; UPDATE redrive.jobs_delayed SET meta.crashes = 1");
    change(&queue, ids[1], JobChange::SetPriority(9));
    change(&queue, late, JobChange::RunNow);
    change(&queue, ids[2], JobChange::SetPriority(9));
    assert_eq!(client.count("jobs_waiting"), 3);
    assert_eq!(claim(&mut client, 1, &mut Place::default()), [0; 0]);
}

#[test]
fn a_job_that_ends_in_its_transaction_passes_its_turn_on() {
    let (test, queue) = with_policy(CONTINUE);
    let finished = kept::<Finished>();
    let note = move |job: &Job<Order>, _: &mut Transaction<'_>| {
        finished.note(job);
        Ok(())
    };
    let worker = worker(&queue).slots(4).handle(note).started();
    enqueue_rounds(&queue, &["a", "b"], 10);
    let all: Vec<i64> = (1..=10).collect();
    all_end(&test, &queue, worker, finished, &all);
    assert_eq!(finished.of("b"), all);
}

#[test]
fn a_job_that_is_erased_or_loses_its_workers_too_often_passes_its_turn_on() {
    for is_erased in [true, false] {
        let (test, queue) = with_policy(CONTINUE);
        let ids = enqueue_rounds(&queue, &["a"], 2);
        let mut client = test.client();
        claim(&mut client, 5, &mut Place::default());
        if !is_erased {
            client.sql("UPDATE redrive.leases SET metas[1].crashes = 2");
        }
        expire_leases(&mut client);
        if is_erased {
            assert_eq!(client.count("group_slots"), 1);
            let first = only(ids[0]);
            queue.database().dlq().erase(&first, &maria()).unwrap();
        }
        assert_eq!(client.count("group_slots"), 0, "erased: {is_erased}");
        assert_eq!(claim(&mut client, 5, &mut Place::default()), [ids[1].get()]);
    }
}

#[test]
fn a_settle_passes_on_the_turns_of_its_leases_and_of_no_other() {
    let (test, queue) = with_policy(CONTINUE);
    let mut client = test.client();
    let ids = enqueue_rounds(&queue, &["a", "b", "c"], 1);
    let mut place = Place::default();
    assert_eq!(claim(&mut client, 2, &mut place).len(), 2);
    assert_eq!(claim(&mut client, 1, &mut place).len(), 1);
    let first = "SELECT lease_id FROM redrive.leases WHERE job_count = 2";
    let first: Uuid = client.ask(first, &[]);
    let mut settler = test.client();
    let mut settle = |lease, jobs| Hand::of("orders").ends(&mut settler, lease, jobs);
    assert!(!settle(Uuid::new_v4(), 2), "the lease is lost");
    assert!(!settle(first, 1), "the lease has another job");
    assert_eq!(client.count("group_slots"), 3);
    // The job of group a has been settled before, and backs off with its turn.
    let settled = "UPDATE redrive.leases SET done = ARRAY[$2::bigint] WHERE lease_id = $1";
    client.change(settled, &[&first, &ids[0].get()]);
    assert!(settle(first, 1));
    let left = "SELECT job_id FROM redrive.group_slots ORDER BY job_id";
    let left: Vec<i64> = client.column(left, &[]);
    assert_eq!(left, [ids[0].get(), ids[2].get()]);
}

#[test]
fn the_slot_of_a_running_job_does_not_expire() {
    let (test, queue) = with_policy(GroupPolicy::Limit(1));
    let gate = Gate::new();
    let worker = worker(&queue).slots(2).runs(gate.passing::<Order>());
    enqueue_rounds(&queue, &["a"], 2);
    gate.wait_for(1);
    let mut client = test.client();
    let update = "UPDATE redrive.leases SET claimed_at = claimed_at - interval '30 days'";
    client.sql(update);
    assert_eq!(reap(&mut client), [], "its worker renews");
    assert_eq!(claim(&mut client, 10, &mut Place::default()), [0; 0]);
    assert_eq!((gate.arrived(), client.count("group_slots")), (1, 1));
    gate.open();
    finish(&queue, worker);
    assert_eq!(gate.arrived(), 2);
    assert_eq!(test.count("group_slots"), 0);
}

#[test]
fn a_cancelled_follower_dies_when_the_others_return() {
    let (test, queue) = with_policy(HOLD);
    let ids = enqueue_rounds(&queue, &["a"], 4);
    let mut client = test.client();
    let mut place = Place {
        in_a_row: 10,
        ..Place::default()
    };
    assert_eq!(claim(&mut client, 10, &mut place).len(), 4);
    queue.database().cancels(ids[2]);
    let lease: Uuid = client.ask("SELECT lease_id FROM redrive.leases", &[]);
    let followers: Vec<i64> = ids[1..].iter().map(|id| id.get()).collect();
    let unrun: Vec<_> = followers.iter().map(|id| (*id, "unrun", None)).collect();
    let settlement = Settlement {
        queue: "orders",
        lease,
        verdicts: &unrun,
        delay_ms: 0,
        counts: &[],
    };
    assert_eq!(settlement.write(&mut client).len(), 3);
    assert_eq!(settlement.write(&mut client).len(), 0, "they have returned");
    assert_eq!(client.count("jobs_waiting"), 2);
    let uncharged = "dead_letters WHERE cause = 'manual' AND attempts = 0";
    assert_eq!(client.count(uncharged), 1);
    assert!(queue.held_groups(10).unwrap().is_empty());
    let held = "SELECT (job_count - cardinality(done))::bigint FROM redrive.leases";
    assert_eq!(scalar(&mut client, held), 1);
}
