//! Roles: what each role can do, and that it can do nothing else.

mod operations;
mod reader;
mod worker;

use Profession::{App, Capturer, Enqueuer, Exporter, Nobody, Reader};
use redrive_tests::prelude::*;

use crate::guarantees::secrets::password::with_password;

/// The roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Profession {
    App,
    Enqueuer,
    Worker,
    Capturer,
    Operator,
    Reader,
    Exporter,
    /// A role without any grant.
    Nobody,
}

impl Profession {
    #[rustfmt::skip]
    const ALL: [Profession; 8] = [
        App, Enqueuer, Profession::Worker, Capturer, Profession::Operator, Reader, Exporter, Nobody,
    ];

    fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// A database with each role. Its schema belongs to a role that is no superuser, and no session has a search path.
struct Cast {
    roles: [Role; 8],
    schema_owner: Role,
    owner: Client,
    test: TestDatabase,
}

impl Cast {
    fn new() -> Cast {
        let test = TestDatabase::empty();
        let schema_owner = test.role("owner");
        test.sets("search_path = ''");
        let name = schema_owner.name();
        test.sql(&format!("CREATE SCHEMA redrive AUTHORIZATION {name}"));
        schema_owner.open().migrate().expect("migrate");
        let mut owner = test.client();
        let extensions: Vec<String> = owner.column("SELECT extname::text FROM pg_extension", &[]);
        assert_eq!(extensions, ["plpgsql"]);
        let roles = Profession::ALL.map(|profession| {
            let name = profession.name();
            let kinds = &[&*name][usize::from(profession == Nobody)..];
            test.role_of(&name, kinds)
        });
        Cast {
            roles,
            schema_owner,
            owner,
            test,
        }
    }

    fn role(&self, profession: Profession) -> &Role {
        &self.roles[profession as usize]
    }

    /// Returns the name of a role.
    fn name(&self, profession: Profession) -> String {
        self.role(profession).name().to_owned()
    }

    /// Returns the URL of the database for a role, with a password.
    fn url(&self, profession: Profession) -> String {
        with_password(self.role(profession).url())
    }

    fn open(&self, profession: Profession) -> Database {
        redrive::connect(&self.url(profession)).expect("anybody may connect")
    }

    fn client(&self, profession: Profession) -> Client {
        Client::connect(&self.url(profession), NoTls).expect("anybody may connect")
    }
}

#[test]
fn each_role_can_do_its_operations_and_no_other() {
    let cast = Cast::new();
    let owner = cast.test.open();
    let mut cells = 0;
    let mut troubles = Vec::new();
    for profession in Profession::ALL {
        let mut stage = operations::Stage {
            db: cast.open(profession),
            url: cast.url(profession),
            client: cast.client(profession),
            owner: owner.clone(),
        };
        for verb in operations::VERBS {
            cells += 1;
            let error = (verb.run)(&mut stage).err();
            let is_right = match &error {
                None => verb.allows(profession),
                Some(error) => !verb.allows(profession) && operations::is_denied(&**error),
            };
            if !is_right {
                troubles.push(format!("{profession:?} to {}: {error:?}", verb.name));
            }
        }
    }
    assert!(troubles.is_empty(), "\n{}\n", troubles.join("\n"));
    assert!(cells >= 400, "only {cells} cells");
}

/// What only an operator calls: functions that act on letters, runs, queues and settings.
const ACTS: &str = "{redrive,redrive_letters,discard,discard_letters,reopen_discarded,edit_letters,
    change_jobs,create_run,change_run,change_group,add_group_rule,remove_group_rule,regroup_letters,
    set_policy,run_policy,set_retention,remove_retention,prune_letters,restore_archived,delete_archived,
    erase_batch,prune_audit,add_redaction,remove_redaction,redact_letters,redact_groups,pause_queue,resume_queue,
    release_group,set_rate_limit,remove_rate_limit,open_breaker,close_breaker,pause_schedule,remove_schedule,
    trigger_schedule,audit_counters,repair}";

#[test]
fn each_role_is_denied_every_table_and_function_it_does_not_need() {
    let mut cast = Cast::new();
    let acts = "SELECT count(*), count(*) FILTER (WHERE has_function_privilege($1, p.oid, 'EXECUTE'))
                FROM unnest($2::text::text[]) a (name)
                LEFT JOIN pg_proc p ON p.proname = a.name AND p.pronamespace = 'redrive'::regnamespace";
    // Only the owner can change sequences or truncate a table.
    let rights = "WITH relations AS (
            SELECT c.oid::regclass AS name, c.relkind = 'S' AS is_sequence FROM pg_class c
            WHERE c.relnamespace = 'redrive'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'S')), rights AS (
            SELECT r.name, 'TRUNCATE, REFERENCES, TRIGGER' AS rights FROM relations r WHERE NOT r.is_sequence
            UNION ALL
            SELECT ('redrive.' || w.name)::regclass, 'INSERT, UPDATE, DELETE'
            FROM unnest('{migrations,ring,counter_keys}'::text[]) w (name)
            UNION ALL
            SELECT 'redrive.metric_values'::regclass, 'SELECT, INSERT, UPDATE, DELETE'
            UNION ALL
            SELECT w.name::regclass, 'UPDATE, DELETE'
            FROM unnest('{redrive.audit,redrive.archived_letters}'::text[]) w (name))
        SELECT (SELECT count(*) FROM relations),
               (SELECT coalesce(array_agg(r.name::text), '{}') FROM relations r
                WHERE CASE WHEN r.is_sequence THEN has_sequence_privilege($1, r.name, 'UPDATE') END),
               (SELECT coalesce(array_agg(r.name || ': ' || r.rights), '{}') FROM rights r
                WHERE has_table_privilege($1, r.name, r.rights)),
               has_schema_privilege($1, 'redrive', 'CREATE')";
    for profession in Profession::ALL {
        let role = cast.name(profession);
        let found: (i64, Vec<String>, Vec<String>, bool) = cast.owner.row(rights, &[&role]);
        assert!(found.0 > 40, "{found:?}");
        let has_none = found.1.is_empty() && found.2.is_empty() && !found.3;
        assert!(has_none, "{profession:?}: {found:?}");
        let (all, allowed): (i64, i64) = cast.owner.row(acts, &[&role, &ACTS]);
        let is_operator = profession == Profession::Operator;
        assert_eq!(allowed, if is_operator { all } else { 0 }, "{profession:?}");
    }
}

#[test]
fn no_function_is_public_and_each_has_a_fixed_search_path() {
    let (_test, mut client) = TestDatabase::with_client();
    let open = "SELECT coalesce(array_agg(p.oid::regprocedure::text), '{}') FROM pg_proc p \
                WHERE p.pronamespace = 'redrive'::regnamespace AND has_function_privilege('public', p.oid, 'EXECUTE')";
    let open: Vec<String> = client.ask(open, &[]);
    assert!(open.is_empty(), "everybody may call {open:?}");
    let careless = "SELECT coalesce(array_agg(p.oid::regprocedure::text), '{}') FROM pg_proc p \
                    WHERE p.pronamespace = 'redrive'::regnamespace AND p.prosqlbody IS NULL \
                        AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (p.proconfig), false)";
    let careless: Vec<String> = client.ask(careless, &[]);
    assert_eq!(careless, [""; 0], "the caller names what they use");
    let open = "SELECT coalesce(array_agg(c.relname::text), '{}') FROM pg_class c \
                CROSS JOIN LATERAL aclexplode(c.relacl) a \
                WHERE c.relnamespace = 'redrive'::regnamespace AND a.grantee = 0";
    let open: Vec<String> = client.ask(open, &[]);
    assert!(open.is_empty(), "everybody may use {open:?}");
}

#[test]
fn granting_a_role_that_does_not_exist_is_an_error() {
    let (_test, mut client) = TestDatabase::with_client();
    let grant = "SELECT redrive.grant_role($1, $2)";
    client.refuses(grant, &[&"no_such_role", &"worker"], "42704");
    client.sql("SELECT redrive.grant_role('postgres', 'reader', 'worker')");
    let king: [&(dyn ToSql + Sync); 2] = [&"postgres", &"king"];
    client.refuses(grant, &king, "22023");
    let error = client.query_one(grant, &king).unwrap_err();
    let hint = error.as_db_error().and_then(|error| error.hint());
    has(hint.expect("a hint"), "operator");
}

#[test]
fn who_may_grant_nothing_is_told_so() {
    let test = TestDatabase::migrated();
    let role = test.role_of("clerk", &["reader"]);
    let may = format!(
        "GRANT EXECUTE ON FUNCTION redrive.grant_role TO {}",
        role.name()
    );
    test.sql(&may);
    let grant = "SELECT redrive.grant_role('postgres', 'reader')";
    role.client().refuses(grant, &[], "42501");
}

/// A newer version may need more. Who was revoked gets nothing back.
#[test]
fn a_migration_grants_what_roles_lack_of_their_professions() {
    let mut cast = Cast::new();
    let (enqueuer, reader) = (cast.name(Enqueuer), cast.name(Reader));
    cast.owner.sql(&format!(
        "REVOKE SELECT ON redrive.ring FROM {enqueuer}; REVOKE ALL ON ALL FUNCTIONS IN SCHEMA redrive FROM {enqueuer};
         DROP OWNED BY {reader}; UPDATE redrive.migrations SET checksum = 'other' WHERE name = 'functions/leases'"
    ));
    cast.schema_owner.open().migrate().expect("migrate");
    let queue = Queue::new(&cast.open(Enqueuer), "orders").unwrap();
    put(&queue, new_order(1).unique("one"));
    let usage = "SELECT has_schema_privilege($1, 'redrive', 'USAGE')";
    assert!(!cast.owner.ask::<bool>(usage, &[&reader]));
}

/// Both write rows of the catalog, of which PostgreSQL refuses a concurrent update.
#[test]
fn a_table_is_not_truncated_during_a_grant() {
    let (test, mut worker) = TestDatabase::with_client();
    let role = test.role("clerk");
    let mut owner = test.client();
    let truncates = "SELECT redrive.truncate_drained('redrive.jobs_5')";
    owner.sql("BEGIN");
    owner.change("SELECT redrive.grant_role($1, 'worker')", &[&role.name()]);
    assert!(!worker.ask::<bool>(truncates, &[]));
    owner.sql("COMMIT");
    assert!(worker.ask::<bool>(truncates, &[]));
}

#[test]
fn functions_of_the_same_name_break_no_grant() {
    let (_test, mut client) = TestDatabase::with_client();
    client.sql(
        "CREATE FUNCTION redrive.mask_ids(number bigint) RETURNS bigint LANGUAGE sql IMMUTABLE AS 'SELECT 1::bigint'",
    );
    client.sql("SELECT redrive.grant_role('postgres', 'reader')");
}

/// Whoever may enqueue could otherwise stop the counters, or the enqueues of others.
#[test]
fn an_enqueuer_counts_within_bounds_and_takes_keys_for_its_jobs_only() {
    let test = TestDatabase::migrated();
    let role = test.role_of("maker", &["enqueuer"]);
    let mut client = role.client();
    for (statement, says) in [
        (
            "INSERT INTO redrive.metric_deltas (queue, keys, counts) \
             VALUES ('orders', '{enqueued}', '{9223372036854775807}')",
            "23514",
        ),
        (
            "INSERT INTO redrive.unique_keys (queue, key, job_id) VALUES ('orders', 'a', 1000)",
            "42501",
        ),
        (
            "SELECT redrive.take_key('orders', 'a', 1000, NULL)",
            "42501",
        ),
        (
            "SELECT redrive.take_key('orders', 'a', 1000, 1000)",
            "42501",
        ),
    ] {
        client.refuses(statement, &[], says);
    }
    assert_eq!(test.count("unique_keys"), 0);
    // A histogram without a bucket, and a counter without a count.
    client.sql(
        "INSERT INTO redrive.metric_deltas (queue, keys, counts) \
         VALUES ('orders', '{wait,claimed}', '{1}')",
    );
    assert_eq!(fold(&mut test.client()), 1);
}

/// Makes an open letter in the queue `orders`.
fn letter(db: &Database) -> JobId {
    let position = Uuid::new_v4().to_string();
    let foreign = ForeignFailure::new("test", position, "orders", "order", r#"{"number": 1}"#);
    db.captures(&foreign.error("Broken", "no such order"))
}
