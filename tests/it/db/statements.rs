//! The statements: each is valid and documented, and what the functions have in common. Plans are tested in `plans`.

use postgres::types::Type;
use redrive_tests::prelude::*;

#[test]
fn every_statement_header_lists_the_types_of_its_parameters() {
    let (_test, mut client) = TestDatabase::with_client();
    for (name, text, declared) in redrive::statements() {
        let prepared = client.prepare(text).expect(name);
        assert_eq!(declared, prepared.params(), "{name}.sql");
        // Of any other type the driver asks by statements that it prepares, and keeps, by name.
        for column in prepared.columns() {
            let known = Type::from_oid(column.type_().oid());
            assert!(known.is_some(), "{name}.sql answers {column:?}");
        }
    }
}

/// Otherwise the claim takes a slow way, which tells suspects and other jobs with a lease of their own from the rest.
#[test]
fn jobs_that_one_lease_can_hold_are_in_the_one_that_the_worker_chose() {
    let (_test, queue, mut client) = TestDatabase::with_session();
    queue.set_group_policy(GroupPolicy::Fair, &maria()).unwrap();
    let chosen = Uuid::new_v4();
    let plain = [1, 2, 3].map(new_order);
    let of_groups = [1, 2, 3].map(|number| new_order(number).group(number.to_string()));
    for (name, jobs, rest) in [
        (
            "claim",
            &plain,
            "1, '@', gen_random_uuid(), '{-9}', '{0}', '{9}', NULL, 2",
        ),
        (
            "claim_window",
            &plain,
            "1, '@', gen_random_uuid(), '{0}', '{0}', '{1000000}', NULL, 2",
        ),
        (
            "claim_groups",
            &of_groups,
            "'@', gen_random_uuid(), NULL, NULL, 9, 1, 1, '{}'",
        ),
    ] {
        queue.enqueue_jobs(jobs).unwrap();
        client.sql(&format!("PREPARE {name} AS {}", statement(name)));
        let claim = format!("EXECUTE {name} ('orders', NULL, '{{}}', 9, 8388608, {rest})");
        client.sql(&claim.replace('@', &chosen.to_string()));
        let full = "DELETE FROM redrive.leases WHERE job_count = 3 RETURNING lease_id";
        assert_eq!(client.column::<Uuid>(full, &[]), [chosen], "{name}");
    }
}

/// Each rule, and a query of what breaks it.
const RULES: &[(&str, &str)] = &[
    // A block with an exception handler starts a subtransaction.
    (
        "no function that handles exceptions runs in a parallel query",
        r"SELECT p.proname::text FROM pg_proc p WHERE p.pronamespace = 'redrive'::regnamespace
              AND p.proparallel <> 'u' AND p.prosrc ~ '\mEXCEPTION\M\s+\mWHEN\M'",
    ),
    // A disabled scan looks expensive enough for a compilation, which takes half a second.
    (
        "a function without sequential scans has no bitmap scans and no JIT",
        "SELECT p.proname::text FROM pg_proc p WHERE p.pronamespace = 'redrive'::regnamespace
             AND 'enable_seqscan=off' = ANY (p.proconfig) AND NOT '{enable_bitmapscan=off,jit=off}' <@ p.proconfig",
    ),
    (
        "an archived letter has the columns of a letter, in their order",
        "SELECT coalesce(a.attname, l.attname)::text
         FROM (SELECT * FROM pg_attribute WHERE attrelid = 'redrive.archived_letters'::regclass AND attnum > 0) a
         FULL JOIN (SELECT * FROM pg_attribute WHERE attrelid = 'redrive.dead_letters'::regclass AND attnum > 0) l
             USING (attnum)
         WHERE (a.attname, a.atttypid) IS DISTINCT FROM (l.attname, l.atttypid)",
    ),
    // PostgreSQL 18 refuses to delete a row with a generated column that its whole content identifies, and a subscriber
    // finds no row by a column of a type without equality.
    (
        "no row that is identified by its content has a generated column or JSON",
        "SELECT c.relname::text FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
         WHERE c.relnamespace = 'redrive'::regnamespace AND c.relreplident = 'f'
             AND (a.attgenerated <> '' OR a.atttypid = 'json'::regtype)",
    ),
];

#[test]
fn no_object_of_the_schema_breaks_a_rule() {
    let (_test, mut client) = TestDatabase::with_client();
    for (rule, breaks) in RULES {
        assert_eq!(client.column::<String>(breaks, &[]), [""; 0], "{rule}");
    }
}
