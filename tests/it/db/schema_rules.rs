//! Rules that hold for every table and function of the schema.

use redrive_tests::TestDatabase;

#[test]
fn only_the_owner_may_truncate() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    let role = test.name().replace("redrive_test_", "every_");
    let professions = ["enqueuer", "worker", "operator", "reader", "exporter"];
    client
        .batch_execute(&format!("CREATE ROLE {role} NOLOGIN"))
        .unwrap();
    for profession in professions {
        client
            .execute("SELECT redrive.grant_role($1, $2)", &[&role, &profession])
            .unwrap();
    }
    let asked = "SELECT coalesce(array_agg(c.relname::text), '{}') FROM pg_class c
                 CROSS JOIN LATERAL aclexplode(c.relacl) a
                 WHERE c.relnamespace = 'redrive'::regnamespace AND a.grantee <> c.relowner
                     AND a.privilege_type IN ('TRUNCATE', 'TRIGGER', 'REFERENCES')";
    let open: Vec<String> = client.query_one(asked, &[]).unwrap().get(0);
    client
        .batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}"))
        .unwrap();
    assert_eq!(open, [""; 0]);
}

/// A block with an exception handler starts a subtransaction, which a parallel query cannot do.
#[test]
fn no_function_that_handles_exceptions_runs_in_a_parallel_query() {
    let test = TestDatabase::migrated();
    let asked = r"SELECT proname::text FROM pg_proc WHERE pronamespace = 'redrive'::regnamespace
                  AND proparallel <> 'u' AND prosrc ~ '\mEXCEPTION\M\s+\mWHEN\M'";
    let rows = test.client().query(asked, &[]).unwrap();
    let found: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(found, Vec::<String>::new());
}
