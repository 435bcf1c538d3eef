//! Edits that race other edits and redrives.

use redrive_tests::prelude::*;

use super::{merge, payload};

/// The others commit between the reading of a payload and its edit.
#[test]
fn an_edit_overwrites_no_other_edit_and_no_redriven_letter() {
    let (test, queue, ids) = TestDatabase::with_letters(2);
    let (other, changed, redriven) = (test.open(), ids[0], ids[1]);
    let edit = Edit::transform(move |payload| -> Result<String, String> {
        match payload {
            r#"{"number":1}"# => drop(other.edits(&only(changed), &merge(r#"{"other": 5}"#))),
            r#"{"number":2}"# => drop(other.redrives(&only(redriven))),
            _ => {}
        }
        Ok(payload.replace("number", "count"))
    });
    let done = queue.edits(&of_orders(), &edit);
    assert_eq!((&*done.edited, &*done.skipped), (&[][..], &ids[..]));
    assert_eq!(payload(&queue, changed), json!({"number": 1, "other": 5}));
    assert_eq!(queue.database().dlq().versions(changed).unwrap().len(), 1);
    assert_eq!(queue.live(redriven).payload.get(), r#"{"number":2}"#);
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
    assert_eq!(db.restores(&of_orders(), None), others);
    let (dlq, operator) = (db.dlq(), Operator::default().reason("tests"));
    for changed in [
        dlq.discard(&of_orders(), &operator),
        dlq.reopen(&of_orders(), &operator),
    ] {
        assert_eq!(changed.unwrap().ids, others);
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
