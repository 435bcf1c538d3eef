//! Edits that race other edits and redrives.

use redrive_tests::prelude::*;

use super::{merge, payload};

#[test]
fn concurrent_edits_lose_no_change() {
    let (test, queue, ids) = TestDatabase::with_letters(3);
    let edit_all = |(db, name): (Database, &str)| {
        for n in 0..20 {
            let edit = merge(&format!("{{\"{name}{n}\": {n}}}"));
            let done = db.edits(&of_orders(), &edit);
            // An editor that always loses the race gives up with an error.
            for id in done.skipped {
                while db.edits(&only(id), &edit).edited.is_empty() {}
            }
        }
    };
    at_once(2, |number| (test.open(), ["a", "b"][number]), edit_all);
    for (id, number) in ids.iter().zip(1..) {
        let mut all = json!({ "number": number });
        for n in 0..20 {
            all[format!("a{n}")] = json!(n);
            all[format!("b{n}")] = json!(n);
        }
        assert_eq!(payload(&queue, *id), all);
        assert_eq!(queue.database().dlq().versions(*id).unwrap().len(), 40);
    }
    let audited = "SELECT sum(letters)::bigint FROM redrive.audit WHERE verb = 'edit'";
    assert_eq!(test.client().ask::<i64>(audited, &[]), 120);
}

#[test]
fn an_edit_that_races_a_redrive_applies_before_it_or_fails() {
    let (test, queue, ids) = TestDatabase::with_letters(300);
    let db = test.open();
    let editor = thread::spawn(move || db.edits(&of_orders(), &merge(r#"{"fixed": true}"#)));
    let mut redriven = 0;
    while redriven < ids.len() {
        let some = of_orders().limit(7);
        redriven += queue.redrives(&some).redriven.len();
    }
    let done = editor.join().expect("the editor");
    assert_eq!(done.refused, []);
    let counts = "SELECT count(*), count(*) FILTER (WHERE j.payload::text = l.payload::text),
                         count(*) FILTER (WHERE (l.edits = 1) = (j.payload::jsonb ? 'fixed')),
                         count(*) FILTER (WHERE l.edits = 1),
                         (SELECT count(*) FROM redrive.letter_versions)
                  FROM redrive.live_jobs j JOIN redrive.dead_letters l ON l.id = j.id";
    let (jobs, same, consistent, edited, versions): (i64, i64, i64, i64, i64) =
        test.client().row(counts, &[]);
    assert_eq!((jobs, same, consistent), (300, 300, 300));
    assert_eq!(edited, versions);
    assert_eq!(edited, i64::try_from(done.edited.len()).unwrap());
}

#[test]
fn an_edit_that_expects_another_version_is_rejected_in_sql() {
    let (test, queue) = TestDatabase::with_orders();
    let id = letters(&queue, 1)[0].get();
    let mut client = test.client();
    let edit = "SELECT redrive.edit_letter($1, '{\"number\": 5}', 'a typo', 'maria', 0)";
    assert_eq!(client.ask::<i32>(edit, &[&id]), 1);
    client.refuses_each(
        "SELECT redrive.edit_letter(@)",
        &format!(
            "{id}, '1', expected_edits => 0 -- was edited in the meantime
             {id}, NULL                     -- 22004 redrive: the payload is NULL
             424242, '1'                    -- redrive: letter 424242 does not exist"
        ),
    );
    assert_eq!(payload(&queue, JobId::new(id)), json!({ "number": 5 }));
}

#[test]
fn a_letter_that_another_session_holds_is_left_out_and_reported() {
    let (test, queue, ids) = TestDatabase::with_letters(3);
    let db = queue.database();
    db.edits(&of_orders(), &merge(r#"{"first": true}"#));
    let mut holder = test.locks(ids[1]);
    let locked = [ids[1]];
    let others = [ids[0], ids[2]];
    let done = db.edits(&of_orders(), &merge(r#"{"fixed": true}"#));
    assert_eq!((&*done.edited, &*done.skipped), (&others[..], &locked[..]));
    assert_eq!(done.locked, locked);
    assert_eq!(db.restores(&of_orders(), None), others);
    let (dlq, operator) = (db.dlq(), Operator::default().reason("tests"));
    for changed in [
        dlq.discard(&of_orders(), &operator),
        dlq.reopen(&of_orders(), &operator),
    ] {
        assert_eq!(changed.unwrap().letters, others);
    }
    let redriven = db.redrives(&of_orders());
    assert_eq!(redriven.skipped, [(ids[1], Skip::Locked)]);
    assert_eq!(redriven.redriven, others);
    assert_eq!(db.redrives(&only(ids[1])).skipped, [(ids[1], Skip::Locked)]);
    holder.sql("ROLLBACK");
    let redriven = db.redrives(&of_orders());
    assert_eq!(redriven.skipped, []);
    assert_eq!(redriven.redriven, [ids[1]]);
}
