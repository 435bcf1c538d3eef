//! Encodings: a database that is not UTF-8 is refused, and nothing is created in it.

use redrive::migrate::{all, in_transaction};
use redrive_tests::prelude::*;

#[test]
fn a_database_with_another_encoding_is_refused_and_unchanged() {
    for encoding in ["LATIN1", "SQL_ASCII"] {
        let test = TestDatabase::with_encoding(encoding);
        let error = test.open().migrate().expect_err("not UTF-8");
        let said = format!("{error:?}");
        let expected = format!("has the encoding {encoding}; redrive needs UTF8");
        has(&said, &expected);

        let script = test.client().batch_execute(&in_transaction(&all()));
        has(refusal(&script.expect_err("not UTF-8")), &expected);
        test.fails(2, "migrate").tells(&expected);
        let created = "SELECT FROM pg_namespace WHERE nspname = 'redrive'";
        assert!(test.client().query_opt(created, &[]).unwrap().is_none());
    }
}
