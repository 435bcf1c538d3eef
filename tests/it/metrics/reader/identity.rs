//! The identity of the database that a reading describes.

use redrive_tests::{TestDatabase, statement};

#[test]
fn the_identity_names_the_server_and_one_database() {
    let tests = [TestDatabase::migrated(), TestDatabase::migrated()];
    let [one, other] = tests.each_ref().map(|test| {
        let rows = test.client().query(statement("identify"), &[]).unwrap();
        assert_eq!(rows.len(), 1, "rows");
        rows[0].get::<_, String>("identity")
    });
    let server = |identity: &str| identity.split(':').next().map(str::to_owned);
    assert_eq!(server(&one), server(&other));
    assert_ne!(one, other);
}
