//! The statements: each is valid and documented. Their plans are tested in `plans`.

use postgres::types::Type;
use redrive_tests::prelude::*;

#[test]
fn every_statement_header_lists_the_types_of_its_parameters() {
    let (_test, mut client) = TestDatabase::with_client();
    let texts = redrive::statements().map(|(_, text)| text);
    for ((name, declared), text) in redrive::signatures().zip(texts) {
        let prepared = client.prepare(text).expect(name);
        assert_eq!(declared, prepared.params(), "{name}.sql");
        // Of any other type the driver asks by statements that it prepares, and keeps, by name.
        for column in prepared.columns() {
            let known = Type::from_oid(column.type_().oid());
            assert!(known.is_some(), "{name}.sql answers {column:?}");
        }
    }
}

/// A block with an exception handler starts a subtransaction, which a parallel query cannot do.
#[test]
fn no_function_that_handles_exceptions_runs_in_a_parallel_query() {
    let test = TestDatabase::migrated();
    let asked = r"SELECT proname::text FROM pg_proc WHERE pronamespace = 'redrive'::regnamespace
                  AND proparallel <> 'u' AND prosrc ~ '\mEXCEPTION\M\s+\mWHEN\M'";
    let found: Vec<String> = test.client().column(asked, &[]);
    assert_eq!(found, Vec::<String>::new());
}
