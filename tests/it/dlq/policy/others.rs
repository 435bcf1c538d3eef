//! A command on one policy leaves the others alone.

use redrive::Operator;
use redrive::dlq::{LetterFilter, Policy, PolicyMode};
use redrive_tests::TestDatabase;

use super::status;

#[test]
fn a_change_of_one_policy_leaves_the_others_alone() {
    let test = TestDatabase::migrated();
    let (db, operator) = (test.open(), Operator::default());
    let policies = db.dlq().policies();
    for name in ["a", "b", "c"] {
        policies
            .set(&Policy::new(name, LetterFilter::new()), &operator)
            .unwrap();
    }
    assert!(
        policies
            .set_mode("a", PolicyMode::Paused, &operator)
            .unwrap()
    );
    assert!(
        policies
            .set_mode("b", PolicyMode::DryRun, &operator)
            .unwrap()
    );
    let modes = ["a", "b", "c"].map(|name| status(&db, name).mode);
    assert_eq!(
        modes,
        [PolicyMode::Paused, PolicyMode::DryRun, PolicyMode::Active]
    );

    assert!(policies.remove("b", &operator).unwrap());
    let left = policies.list().unwrap();
    let left: Vec<&str> = left.iter().map(|policy| &*policy.name).collect();
    assert_eq!(left, ["a", "c"]);
}
