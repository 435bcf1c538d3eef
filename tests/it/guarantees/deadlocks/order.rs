//! Statements lock rows in one order, and the victim of a deadlock retries.

use redrive::admin::Cancelled;
use redrive_tests::prelude::*;

use super::{at_the_gate, database, deadlocks, redriven};

fn foreign(position: &str) -> ForeignFailure {
    ForeignFailure::new("kafka:orders", position, "orders", "order", "{}")
}

#[test]
fn a_settle_waits_for_no_enqueue_of_its_keys() {
    let test = database();
    let queue = test.queue("orders");
    // The other way round than their ids.
    for key in ["b", "a"] {
        put(&queue, new_order(1).unique(key));
    }
    let gate = Gate::new();
    let worker = at_the_gate(&queue, &gate, |_| Ok(()));
    gate.wait_for(2);
    let mut client = test.client();
    let mut transaction = client.transaction().unwrap();
    let mut add = |key: &str| queue.enqueue_job_in(&mut transaction, new_order(2).unique(key));
    assert!(matches!(add("a"), Ok(Enqueued::Existing(_))));
    gate.open();
    done(&worker, 2);
    assert!(matches!(add("b"), Ok(Enqueued::New(_))));
    transaction.commit().unwrap();
    let counts = finish(&queue, worker).stats;
    assert_eq!((counts.done, counts.lost), (3, 0));
    drop((queue, client));
    assert_eq!(deadlocks(&test), 0);
}

/// Two letters of a diverted group. The job of the first one is ready.
fn diverted(test: &TestDatabase) -> (Queue, Vec<JobId>) {
    let queue = test.queue("orders");
    let policy = GroupPolicy::Ordered(GroupDeath::Divert);
    queue.set_group_policy(policy, &maria()).unwrap();
    let ids = [1, 2].map(|number| put(&queue, new_order(number).group("a")));
    work_off(&queue, |_: &Job<Order>| Err(Failure::reject("broken")));
    queue.redrives(&only(ids[0]));
    (queue, ids.to_vec())
}

/// Prepares two letters and a call that locks both, and returns their ids.
type Prepare = fn(&TestDatabase) -> (Vec<JobId>, Box<dyn FnOnce() + Send>);

#[test]
fn letters_are_locked_in_the_order_of_their_ids() {
    let calls: [(&str, Prepare); 5] = [
        ("a settle of redriven jobs", |test| {
            let gate = Gate::new();
            let (queue, ids, worker) = redriven(test, &gate);
            let settle = move || {
                gate.open();
                let counts = finish(&queue, worker).stats;
                assert_eq!((counts.done, counts.dead, counts.lost), (1, 1, 0));
            };
            (ids, Box::new(settle))
        }),
        ("a settle that passes a turn to a letter", |test| {
            let (queue, ids) = diverted(test);
            let gate = Gate::new();
            let worker = at_the_gate(&queue, &gate, |_| Ok(()));
            gate.wait_for(1);
            let settle = move || {
                gate.open();
                assert_eq!(finish(&queue, worker).stats.done, 1);
            };
            (ids, Box::new(settle))
        }),
        ("a cancellation that passes a turn to a letter", |test| {
            let (queue, ids) = diverted(test);
            let job = ids[0];
            let cancel = move || assert_eq!(queue.cancels(job), Cancelled::Dead);
            (ids, Box::new(cancel))
        }),
        ("a repeated capture", |test| {
            let db = test.open();
            // The other way round than their positions.
            let both = ["0/2", "0/1"].map(foreign);
            let ids = both.iter().map(|one| db.captures(one)).collect();
            let capture = move || assert_eq!(db.dlq().capture_many(&both).unwrap().len(), 2);
            (ids, Box::new(capture))
        }),
        ("a repair of letters without their jobs", |test| {
            let queue = test.queue("orders");
            let ids = letters(&queue, 2);
            queue.redrives(&of_orders());
            let mut client = test.client();
            client.sql("DELETE FROM redrive.jobs");
            let repair = move || {
                assert_eq!(client.ask::<i64>(REPAIR, &[]), 2);
                assert_eq!(in_state(&queue, LetterState::Open), 2);
            };
            (ids, Box::new(repair))
        }),
    ];
    for (name, prepare) in calls {
        let test = database();
        let (ids, call) = prepare(&test);
        let mut other = test.locks(ids[0]);
        held_up(&test, call, || {
            other.sql("SELECT FROM redrive.dead_letters FOR UPDATE; COMMIT");
        });
        drop(other);
        assert_eq!(deadlocks(&test), 0, "{name}");
    }
}

/// Otherwise a session that waits for the group of another one could hold a letter that a third one, such as an edit,
/// waits for, and the other one waits for the edit.
#[test]
fn a_death_locks_its_letters_before_it_creates_their_group() {
    type Die = fn(&TestDatabase, &Queue, Option<Worker>) -> usize;
    let paths: [(&str, Die); 3] = [
        ("a bulk cancellation", |_, queue, _| {
            let (these, operator) = (JobFilter::new().queue("orders"), Operator::default());
            let jobs = queue.database().admin().jobs();
            let changed = jobs.change(&these, JobChange::Cancel, &operator);
            changed.unwrap().ids.len()
        }),
        ("a release", |_, _, worker| {
            let stopped = worker.expect("a worker").stop(Duration::ZERO).unwrap();
            stopped.still_running.len()
        }),
        ("a reap", |test, _, _| {
            expire_leases(&mut test.client()).len()
        }),
    ];
    for (path, die) in paths {
        let test = database();
        let gate = Gate::new();
        let (queue, worker) = match path {
            "a bulk cancellation" => {
                let queue = test.queue("orders");
                letters(&queue, 2);
                queue.redrives(&of_orders());
                (queue, None)
            }
            _ => {
                let (queue, ids, worker) = redriven(&test, &gate);
                for id in ids {
                    queue.cancels(id);
                }
                (queue, Some(worker))
            }
        };
        let mut watching = test.client();
        let create = "SELECT redrive.group_of('orders', 'order', 'cancelled', 'cancelled by an operator', NULL)";
        let mut group = test.begins(create);
        let died = thread::scope(|scope| {
            let dying = scope.spawn(|| die(&test, &queue, worker));
            wait_until(path, SOON, || {
                let free = "SELECT FROM redrive.dead_letters FOR UPDATE SKIP LOCKED";
                watching.query(free, &[]).unwrap().is_empty()
            });
            blocked(&mut watching, 1);
            group.sql("COMMIT");
            dying.join().unwrap()
        });
        gate.open();
        assert_eq!(died, 2, "{path}");
        assert_eq!(in_state(&queue, LetterState::Open), 2, "{path}");
        drop((queue, group, watching));
        assert_eq!(deadlocks(&test), 0, "{path}");
    }
}

/// A capture that finds a letter deleted must insert it, and an insert waits for other captures.
#[test]
fn a_capture_whose_letter_was_deleted_starts_again_without_locks() {
    let test = database();
    let db = test.open();
    let all = ["0/1", "0/2", "0/3"].map(foreign);
    let captured = db.dlq().capture_many(&all).unwrap();
    db.discards(&only(captured[1].id()));
    let (mut deleting, mut locking, mut watching) = (test.client(), test.client(), test.client());
    let mut deletion = deleting.transaction().unwrap();
    deletion.sql("DELETE FROM redrive.dead_letters WHERE \"position\" = '0/2'");
    let mut transaction = locking.transaction().unwrap();
    transaction.sql("SELECT FROM redrive.dead_letters WHERE \"position\" = '0/3' FOR UPDATE");

    let capture = |positions: &'static [usize]| {
        let (db, all) = (db.clone(), all.clone());
        thread::spawn(move || {
            let chosen: Vec<_> = positions.iter().map(|place| &all[*place]).collect();
            db.dlq().capture_many(chosen).map(|captured| captured.len())
        })
    };
    // It locks the first letter and waits for the deletion of the second, then for the third.
    let first = capture(&[0, 1, 2]);
    blocked(&mut watching, 1);
    deletion.commit().unwrap();
    blocked(&mut watching, 1);
    // It inserts the second and waits for the lock of the first.
    let second = capture(&[0, 1]);
    blocked(&mut watching, 2);
    transaction.commit().unwrap();
    assert_eq!(first.join().unwrap().unwrap(), 3);
    assert_eq!(second.join().unwrap().unwrap(), 2);
    assert_eq!(letters_in(&db, "orders", LetterState::Open), 3);
    drop((db, deleting, locking, watching));
    assert_eq!(deadlocks(&test), 0);
}

const ERASE: &str = r#"SELECT entries FROM redrive.erase_batch('{"payload": "$.number > 0"}', 10, NULL, 'x')
    WHERE place = 'letters'"#;

const REPAIR: &str = "SELECT sum(places)::bigint FROM redrive.repair(false) WHERE kind = 'letter'";

/// Each changes several groups, as a fold does.
#[test]
fn what_changes_failure_groups_waits_for_a_fold_before_it_locks_one() {
    for change in [ERASE, "SELECT redrive.redact_groups()"] {
        let test = database();
        let queue = test.queue("orders");
        letters(&queue, 1);
        let (mut changing, mut watching) = (test.client(), test.client());
        let lock = "SELECT FROM redrive.exclusive_tasks WHERE task = 'fold_letters' FOR UPDATE";
        let mut fold = test.begins(lock);
        thread::scope(|scope| {
            let changed = scope.spawn(|| changing.sql(change));
            blocked(&mut watching, 1);
            fold.sql("SELECT FROM redrive.groups FOR UPDATE NOWAIT");
            fold.sql("COMMIT");
            changed.join().unwrap();
        });
    }
}

/// A statement writes letters of several groups in any order, so it must not wait for a group that exists.
#[test]
fn a_failure_waits_for_no_session_that_changes_its_erased_group() {
    let (test, db, mut client) = TestDatabase::with_handle();
    let fails = |position| db.captures(&foreign(position).error("Declined", "no funds"));
    fails("0/1");
    client.sql("UPDATE redrive.groups SET title = '[erased]'");
    let mut change = test.begins("SELECT FROM redrive.groups FOR UPDATE");
    fails("0/2");
    let title = "SELECT title FROM redrive.groups";
    assert_eq!(client.ask::<String>(title, &[]), "[erased]");
    change.sql("COMMIT");
    fails("0/3");
    assert_eq!(client.ask::<String>(title, &[]), "no funds");
}

/// Makes the first change of a letter fail as a deadlock victim; later ones succeed.
fn make_a_victim(test: &TestDatabase) {
    test.sql("CREATE SEQUENCE public.victims");
    let fall =
        "IF nextval('public.victims') = 1 THEN RAISE EXCEPTION USING ERRCODE = '40P01'; END IF";
    test.before("INSERT OR UPDATE ON redrive.dead_letters", fall);
}

/// Returns the number of changes of letters since.
fn tries(test: &TestDatabase) -> i64 {
    let tries = "SELECT last_value FROM public.victims";
    test.client().ask(tries, &[])
}

/// A deadlock with other programs is possible: the worker retries the settle, and no attempt is
/// charged or lost.
#[test]
fn a_worker_retries_a_settle_that_was_a_deadlock_victim() {
    let test = database();
    let gate = Gate::new();
    let (queue, _, worker) = redriven(&test, &gate);
    make_a_victim(&test);
    gate.open();
    let counts = finish(&queue, worker).stats;
    assert_eq!((counts.done, counts.dead, counts.lost), (1, 1, 0));
    assert!(tries(&test) > 1, "it was a victim, and tried again");
}

/// The statement of an operator is a whole transaction, so it can be repeated. Two captures of new failures in different
/// orders can deadlock on their groups.
#[test]
fn an_edit_and_a_capture_that_were_deadlock_victims_are_retried() {
    let test = database();
    let queue = test.queue("orders");
    letters(&queue, 2);
    make_a_victim(&test);
    let edit = Edit::merge(r#"{"number": 7}"#).unwrap();
    let edited = queue.edits(&of_orders(), &edit);
    assert_eq!(edited.edited.len(), 2, "{edited:?}");
    assert_eq!(tries(&test), 3);
    test.sql("ALTER SEQUENCE public.victims RESTART");
    let both = ["0/1", "0/2"].map(foreign);
    let captured = queue.database().dlq().capture_many(&both).unwrap();
    let is_new = |it: &CaptureOutcome| matches!(it, CaptureOutcome::New(_));
    assert_eq!(captured.into_iter().filter(is_new).count(), 2);
    assert_eq!(tries(&test), 3);
}
