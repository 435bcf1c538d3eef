//! The counts of groups match the letters.

use redrive_tests::prelude::*;

/// Checks that the counts of the groups match the letters.
#[track_caller]
pub(in crate::dlq) fn are_exact(client: &mut Client) {
    let wrong =
        "SELECT f.id, f.open, f.redriving, f.recovered, f.discarded, f.quarantined, f.deaths
             FROM redrive.failure_groups f
             LEFT JOIN (
                 SELECT l.group_id, count(*) FILTER (WHERE l.state = 'open') AS open,
                        count(*) FILTER (WHERE l.state = 'redriving') AS redriving,
                        count(*) FILTER (WHERE l.state = 'recovered') AS recovered,
                        count(*) FILTER (WHERE l.state = 'discarded') AS discarded,
                        count(*) FILTER (WHERE l.state = 'quarantined') AS quarantined
                 FROM redrive.dead_letters l GROUP BY l.group_id
             ) c ON c.group_id = f.id
             WHERE (f.open, f.redriving, f.recovered, f.discarded, f.quarantined)
                 IS DISTINCT FROM (coalesce(c.open, 0), coalesce(c.redriving, 0),
                                   coalesce(c.recovered, 0), coalesce(c.discarded, 0),
                                   coalesce(c.quarantined, 0))
             UNION ALL
             SELECT l.group_id, 0, 0, 0, 0, 0, 0 FROM redrive.dead_letters l
             WHERE NOT EXISTS (SELECT FROM redrive.groups g WHERE g.id = l.group_id)";
    let wrong = client.query(wrong, &[]).unwrap();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn group_counts_match_the_letters_under_concurrent_changes() {
    let (test, queue) = TestDatabase::with_orders();
    let messages = ["red", "green", "blue"];
    let working = worker(&queue).slots(3).runs(move |job: &Job<Order>| {
        let number = usize::try_from(job.payload().number)?;
        match (number + usize::try_from(job.generation())?) % 4 {
            3 => Ok(()),
            colour => Err(Failure::reject(messages[colour])),
        }
    });
    thread::scope(|scope| {
        scope.spawn(|| {
            for _ in 0..20 {
                queue.enqueue_many(&Order::up_to(30)).unwrap();
            }
        });
        // Operators redrive, discard and fold concurrently.
        for part in 0..3 {
            let db = test.open();
            scope.spawn(move || {
                for turn in 0..40 {
                    let some = of_orders().limit(9);
                    match (turn + part) % 4 {
                        0 => drop(db.discards(&some.limit(2))),
                        _ => drop(db.redrives(&some)),
                    }
                }
            });
        }
        let (mut folding, mut deleting, mut looking) =
            (test.client(), test.client(), test.client());
        scope.spawn(move || {
            for _ in 0..60 {
                folding.sql("SELECT redrive.fold_letters()");
            }
        });
        scope.spawn(move || {
            for _ in 0..30 {
                deleting.sql("DELETE FROM redrive.dead_letters WHERE ctid = ANY (ARRAY(
                             SELECT ctid FROM redrive.dead_letters WHERE state IN ('recovered', 'discarded')
                             LIMIT 3 FOR UPDATE SKIP LOCKED))");
                deleting.sql("SELECT redrive.prune_groups('0')");
            }
        });
        // Every check reads counts and rows in one snapshot.
        scope.spawn(move || (0..40).for_each(|_| are_exact(&mut looking)));
    });
    finish(&queue, working);
    let mut client = test.client();
    are_exact(&mut client);
    while client.ask::<i64>("SELECT redrive.fold_letters()", &[]) > 0 {}
    are_exact(&mut client);
}
