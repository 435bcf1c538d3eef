//! Events that operators and sources change beside their consumers.

use redrive_tests::prelude::*;

use super::changes::{claimed, expire_claims, one_event};
use super::event;

#[test]
fn an_operator_does_not_take_what_a_consumer_holds() {
    let (test, mut client, id) = one_event();
    assert_eq!(claimed(&mut client), [id]);
    let mut acts = |sent: i64, discarded: i64| {
        let redrive = format!("SELECT redrive('{{\"ids\": [{id}]}}')");
        assert_eq!(scalar(&mut client, &redrive), sent);
        let discard = format!("SELECT discard('{{\"ids\": [{id}]}}', 'gone')");
        assert_eq!(scalar(&mut client, &discard), discarded);
    };
    acts(0, 0);
    expire_claims(&test);
    acts(1, 0);
    assert_eq!(test.client().count("live_jobs"), 1);
    no_drift(&test.open());
}

#[test]
fn a_discarded_event_that_is_reopened_is_pending_again() {
    let (test, mut client, id) = one_event();
    let acts = ["discard('{}', 'test')", "reopen_discarded('{}')"];
    for (act, status) in acts.into_iter().zip(["FAILED_PERMANENTLY", "PENDING"]) {
        assert_eq!(scalar(&mut client, &format!("SELECT {act}")), 1);
        assert_eq!(event(&test, id).0, status);
    }
    assert_eq!(claimed(&mut client), [id]);
}
