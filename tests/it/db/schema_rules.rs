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

/// A dump has the definitions as the server writes them. If one reads back differently, such as a
/// BETWEEN inside an AND, the restored schema seems to be changed.
#[test]
fn every_check_is_the_same_after_a_dump_and_a_restore() {
    let test = TestDatabase::migrated();
    let changed = "
        DO $$
        DECLARE
            one record;
            target text;
            again text;
        BEGIN
            FOR one IN
                SELECT c.conname, c.conrelid, c.contypid, pg_get_constraintdef(c.oid) AS definition
                FROM pg_constraint c
                LEFT JOIN pg_class r ON r.oid = c.conrelid
                WHERE c.connamespace = 'redrive'::regnamespace AND c.contype = 'c' AND c.coninhcount = 0
                    AND NOT coalesce(r.relispartition, false)
            LOOP
                target := CASE one.conrelid WHEN 0 THEN format('DOMAIN %s', one.contypid::regtype)
                    ELSE format('TABLE %s', one.conrelid::regclass) END;
                EXECUTE format('ALTER %s ADD CONSTRAINT restored %s', target, one.definition);
                SELECT pg_get_constraintdef(c.oid) INTO again
                FROM pg_constraint c
                WHERE c.conname = 'restored' AND c.conrelid = one.conrelid AND c.contypid = one.contypid;
                EXECUTE format('ALTER %s DROP CONSTRAINT restored', target);
                IF again <> one.definition THEN
                    RAISE EXCEPTION '% of %: % becomes %', one.conname, target, one.definition, again;
                END IF;
            END LOOP;
        END
        $$";
    test.client().batch_execute(changed).unwrap();
}
