//! Consumers of `dlq_events` in several sessions at once.

use redrive_tests::prelude::*;

use super::changes::{CLAIM, claimed, inserted};
use super::{event, with_search_path};

// With the names of the table adapted.
const SELECT: &str = "\
SELECT * FROM dlq_events
WHERE event_type = 'order.created' AND retry_count < 240 AND status NOT IN ('SUCCEEDED')
ORDER BY created_at ASC
LIMIT 50
FOR UPDATE SKIP LOCKED";

fn ids(client: &mut impl GenericClient, statement: &str) -> BTreeSet<i64> {
    let rows = client.query(statement, &[]).unwrap();
    rows.iter().map(|row| row.get("id")).collect()
}

#[test]
fn consumers_with_open_transactions_get_different_events() {
    let test = TestDatabase::migrated();
    let mut sessions = [(); 3].map(|()| with_search_path(&test));
    let mut left: BTreeSet<i64> = (0..160).map(|_| inserted(&mut sessions[0])).collect();
    let open = sessions.iter_mut();
    let mut open: Vec<_> = open.map(|session| session.transaction().unwrap()).collect();
    for (session, statement) in open.iter_mut().zip([CLAIM, SELECT, CLAIM]) {
        let taken = ids(session, statement);
        assert_eq!(taken.len(), 50, "{statement}");
        assert!(taken.is_subset(&left), "{statement}");
        left.retain(|id| !taken.contains(id));
    }
    let mut last = with_search_path(&test);
    assert_eq!(ids(&mut last, CLAIM), left);
    open.remove(1).rollback().unwrap();
    assert_eq!(ids(&mut last, CLAIM).len(), 50, "those only locked return");
}

#[test]
fn of_two_claims_of_one_event_one_gets_it() {
    let test = TestDatabase::migrated();
    let [mut one, mut other, mut watch] = [(); 3].map(|()| with_search_path(&test));
    let id = inserted(&mut one);
    let claim = "UPDATE dlq_events SET status = 'PROCESSING' WHERE id = $1";
    let mut transaction = one.transaction().unwrap();
    assert_eq!(transaction.execute(claim, &[&id]).unwrap(), 1);
    let again = || other.execute(claim, &[&id]).unwrap();
    let claims = held_up(&test, again, || transaction.commit().unwrap());
    assert_eq!(claims, 0);
    assert_eq!(event(&test, id).0, "PROCESSING");
    assert_eq!(claimed(&mut watch), [0_i64; 0]);
}
