//! Roles: what each profession may do, and that it may do nothing else.

mod verbs;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postgres::error::SqlState;
use postgres::{Client, NoTls};
use redrive::{
    Act, Capture, Captured, Database, Failure, Job, JobId, LetterState, Letters, NewJob, Policy,
    Queue, Rate, Retention, RunOptions, RunState,
};
use redrive_tests::{
    Finish, Hold, Logged, Order, SOON, TestDatabase, drained, letters_in, stats, stop, wait_until,
    worker,
};

/// Who somebody is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Profession {
    Enqueuer,
    Worker,
    Operator,
    Reader,
    Exporter,
    /// A role without any grant.
    Nobody,
}

use Profession::{Enqueuer, Exporter, Nobody, Operator, Reader};

impl Profession {
    const ALL: [Profession; 6] = [
        Enqueuer,
        Profession::Worker,
        Operator,
        Reader,
        Exporter,
        Nobody,
    ];

    fn name(self) -> &'static str {
        match self {
            Enqueuer => "enqueuer",
            Profession::Worker => "worker",
            Operator => "operator",
            Reader => "reader",
            Exporter => "exporter",
            Nobody => "nobody",
        }
    }
}

/// A database with a role for each profession; the roles go with the test.
struct Cast {
    owner: Client,
    test: TestDatabase,
}

impl Cast {
    fn new() -> Cast {
        let test = TestDatabase::migrated();
        let mut owner = test.client();
        let cast = |profession: Profession| role(&test, profession);
        for profession in Profession::ALL {
            let role = cast(profession);
            owner
                .batch_execute(&format!("CREATE ROLE {role} LOGIN"))
                .unwrap();
            if profession != Nobody {
                let left: String = owner
                    .query_one(
                        "SELECT redrive.grant_role($1, $2)",
                        &[&role, &profession.name()],
                    )
                    .unwrap()
                    .get(0);
                assert_eq!(left, "", "a superuser can do all of it");
            }
        }
        Cast { owner, test }
    }

    /// The URL of the database for a profession.
    fn url(&self, profession: Profession) -> String {
        let (scheme, rest) = self.test.url().split_once("://").expect("a URL");
        let address = rest.split_once('@').map_or(rest, |(_, address)| address);
        format!("{scheme}://{}@{address}", role(&self.test, profession))
    }

    fn open(&self, profession: Profession) -> Database {
        redrive::connect(&self.url(profession)).expect("anybody may connect")
    }

    fn client(&self, profession: Profession) -> Client {
        Client::connect(&self.url(profession), NoTls).expect("anybody may connect")
    }
}

impl Drop for Cast {
    fn drop(&mut self) {
        for profession in Profession::ALL {
            let role = role(&self.test, profession);
            let forgotten = self
                .owner
                .batch_execute(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
            if !std::thread::panicking() {
                forgotten.unwrap();
            }
        }
    }
}

fn role(test: &TestDatabase, profession: Profession) -> String {
    let suffix = test.name().trim_start_matches("redrive_test_");
    format!("{}_{suffix}", profession.name())
}

fn id(captured: Capture) -> JobId {
    match captured {
        Capture::New(id) | Capture::Known(id) => id,
    }
}

/// A letter that waits in the queue `orders`.
fn letter(db: &Database) -> JobId {
    let position = uuid::Uuid::new_v4().to_string();
    let foreign = Captured::new("test", position, "orders", "order", r#"{"number": 1}"#)
        .error("Broken", "no such order");
    id(db.capture(&foreign).expect("a letter"))
}

#[test]
fn each_profession_does_its_verbs_and_no_other() {
    let cast = Cast::new();
    let owner = cast.test.open();
    let mut cells = 0;
    let mut troubles = Vec::new();
    for profession in Profession::ALL {
        let mut stage = verbs::Stage {
            db: cast.open(profession),
            url: cast.url(profession),
            client: cast.client(profession),
            owner: owner.clone(),
        };
        for verb in verbs::VERBS {
            cells += 1;
            let answer = (verb.act)(&mut stage);
            match (verb.may.contains(&profession), answer) {
                (true, Ok(())) => {}
                (true, Err(refused)) => {
                    troubles.push(format!("{profession:?} cannot {}: {refused:?}", verb.name));
                }
                (false, Ok(())) => {
                    troubles.push(format!("{profession:?} may {}", verb.name));
                }
                (false, Err(refused)) => {
                    if refused.state.as_ref() != Some(&SqlState::INSUFFICIENT_PRIVILEGE) {
                        troubles.push(format!(
                            "{profession:?} is not refused to {}, it fails: {refused:?}",
                            verb.name
                        ));
                    }
                }
            }
        }
    }
    assert!(troubles.is_empty(), "\n{}\n", troubles.join("\n"));
    assert!(cells >= 400, "only {cells} cells");
}

#[test]
fn whatever_a_verb_does_not_name_is_refused_as_well() {
    let mut cast = Cast::new();
    let relations = "SELECT c.relname::text, c.relkind = 'S' FROM pg_class c \
                     WHERE c.relnamespace = 'redrive'::regnamespace AND c.relkind IN ('r', 'p', 'v', 'S')";
    let relations = cast.owner.query(relations, &[]).unwrap();
    assert!(relations.len() > 40, "{}", relations.len());
    // Nobody but the owner changes these, or takes anything away at once.
    for profession in Profession::ALL {
        let role = role(&cast.test, profession);
        for relation in &relations {
            let (name, is_sequence): (String, bool) = (relation.get(0), relation.get(1));
            let rights = match is_sequence {
                true => "UPDATE",
                false => "TRUNCATE, REFERENCES, TRIGGER",
            };
            let has = format!(
                "SELECT has_{}_privilege($1, 'redrive.{name}', $2)",
                if is_sequence { "sequence" } else { "table" }
            );
            let has: bool = cast
                .owner
                .query_one(&has, &[&role, &rights])
                .unwrap()
                .get(0);
            assert!(!has, "{profession:?} has {rights} on {name}");
        }
        for (table, rights) in [
            ("migrations", "INSERT, UPDATE, DELETE"),
            ("ring", "INSERT, UPDATE, DELETE"),
            ("metric_ring", "INSERT, UPDATE, DELETE"),
            ("metric_words", "INSERT, UPDATE, DELETE"),
            ("metric_values", "SELECT, INSERT, UPDATE, DELETE"),
            ("audit", "UPDATE, DELETE"),
            ("archived_letters", "UPDATE, DELETE"),
        ] {
            let has = "SELECT has_table_privilege($1, $2, $3)";
            let table = format!("redrive.{table}");
            let row = cast.owner.query_one(has, &[&role, &table, &rights]);
            assert!(
                !row.unwrap().get::<_, bool>(0),
                "{profession:?} has {rights} on {table}"
            );
        }
        let creates = "SELECT has_schema_privilege($1, 'redrive', 'CREATE')";
        let row = cast.owner.query_one(creates, &[&role]).unwrap();
        assert!(!row.get::<_, bool>(0), "{profession:?} may create");
    }
}

#[test]
fn no_function_is_for_everybody_and_those_with_the_owners_rights_are_closed() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    let open = "SELECT coalesce(array_agg(p.oid::regprocedure::text), '{}') FROM pg_proc p \
                WHERE p.pronamespace = 'redrive'::regnamespace AND has_function_privilege('public', p.oid, 'EXECUTE')";
    let open: Vec<String> = client.query_one(open, &[]).unwrap().get(0);
    assert!(open.is_empty(), "everybody may call {open:?}");
    let careless = "SELECT coalesce(array_agg(p.oid::regprocedure::text), '{}') FROM pg_proc p \
                    WHERE p.pronamespace = 'redrive'::regnamespace AND p.prosecdef \
                        AND NOT coalesce('search_path=pg_catalog, pg_temp' = ANY (p.proconfig), false)";
    let careless: Vec<String> = client.query_one(careless, &[]).unwrap().get(0);
    assert!(
        careless.is_empty(),
        "whose names the caller decides: {careless:?}"
    );
    // Which there are is looked at by people: another one is a decision.
    let closed = "SELECT array_agg(p.proname::text ORDER BY p.proname) FROM pg_proc p \
                  WHERE p.pronamespace = 'redrive'::regnamespace AND p.prosecdef";
    let closed: Vec<String> = client.query_one(closed, &[]).unwrap().get(0);
    assert_eq!(
        closed,
        [
            "audit_counters",
            "fold_metrics",
            "metric_totals",
            "metrics_bloat",
            "metrics_letters",
            "metrics_operations",
            "metrics_queues",
            "metrics_tables",
            "turn_ring"
        ]
    );
    let open = "SELECT coalesce(array_agg(c.relname::text), '{}') FROM pg_class c \
                CROSS JOIN LATERAL aclexplode(c.relacl) a \
                WHERE c.relnamespace = 'redrive'::regnamespace AND a.grantee = 0";
    let open: Vec<String> = client.query_one(open, &[]).unwrap().get(0);
    assert!(open.is_empty(), "everybody may use {open:?}");
}

#[test]
fn who_grants_what_there_is_not_is_told() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    let grant = "SELECT redrive.grant_role($1, $2)";
    let error = client
        .query_one(grant, &[&"no_such_role", &"worker"])
        .unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::UNDEFINED_OBJECT));
    let error = client
        .query_one(grant, &[&"postgres", &"king"])
        .unwrap_err();
    assert_eq!(error.code(), Some(&SqlState::INVALID_PARAMETER_VALUE));
    let hint = error.as_db_error().and_then(|error| error.hint());
    assert!(
        hint.is_some_and(|hint| hint.contains("operator")),
        "{hint:?}"
    );
}

/// A worker of that profession runs jobs of every outcome, and does every chore, without an error
/// in its log.
#[test]
fn a_worker_does_all_of_its_work_as_a_worker() {
    let logged = Logged::start(log::LevelFilter::Warn);
    let mut cast = Cast::new();
    cast.owner
        .batch_execute(&format!(
            "CREATE TABLE public.effects (number bigint); GRANT INSERT ON public.effects TO {}",
            role(&cast.test, Profession::Worker)
        ))
        .unwrap();
    let db = cast.test.open();
    let queue = Queue::new(&db, "orders").unwrap();

    // A redriven job, a waiting policy, a rule of retention, a run without a driver.
    letter(&db);
    db.redrive(&Letters::queue("orders"), &Act::new()).unwrap();
    letter(&db);
    let run = db
        .create_run(
            &Letters::queue("orders"),
            &RunOptions::new().rate(Rate::Unthrottled),
            &Act::new().why("fixed"),
        )
        .unwrap()
        .expect("a letter")
        .id;
    let foreign = Captured::new("test", "policy", "nightly", "order", r#"{"number": 1}"#);
    db.capture(&foreign).unwrap();
    let policy = Policy::new("nightly", Letters::queue("nightly")).every(Duration::from_secs(1));
    db.set_policy(&policy, &Act::new()).unwrap();
    let old = Captured::new("test", "old", "old", "order", r#"{"number": 1}"#);
    let old = id(db.capture(&old).unwrap());
    db.discard(&Letters::queue("old"), &Act::new().why("test data"))
        .unwrap();
    let rule = Retention::archive(LetterState::Discarded, Duration::from_hours(24));
    db.set_retention(&rule, &Act::new()).unwrap();
    cast.owner
        .batch_execute(
            "UPDATE redrive.dead_letters SET died_at = died_at - interval '2 days', \
                 changed_at = changed_at - interval '2 days'",
        )
        .unwrap();
    // A lease of somebody who is gone.
    let lost = Queue::new(&db, "lost").unwrap();
    lost.enqueue(&Order { number: 1 }).unwrap();
    cast.owner
        .batch_execute(
            "WITH gone AS (DELETE FROM redrive.jobs WHERE queue = 'lost' RETURNING *) \
             INSERT INTO redrive.leases (lease_id, worker_id, queue, claimed_at, jobs) \
             SELECT gen_random_uuid(), gen_random_uuid(), queue, now() - interval '1 hour', \
                    ARRAY[ROW(id, kind, priority, payload, 1, max_attempts, generation, crashes, refunds, \
                              enqueued_at, history, unique_key, outage_since)::redrive.leased_job] \
             FROM gone",
        )
        .unwrap();

    // Done, retried, put off, in an outage, dead, panicking, with a key, in a transaction.
    queue.enqueue_many(&Order::up_to(8)).unwrap();
    queue
        .add_unique(NewJob::new(&Order { number: 9 }).unwrap().unique("nine"))
        .unwrap();
    queue.enqueue(&Finish {}).unwrap();
    let (slept, away) = (AtomicBool::new(false), AtomicBool::new(false));
    let ours = Queue::new(&cast.open(Profession::Worker), "orders").unwrap();
    let worker = worker(&ours)
        .lease(Duration::from_secs(2))
        .breaker_after(1)
        .handle(
            move |job: &Job<Order>| match (job.payload().number, job.attempt()) {
                (2, 1) => Err(Failure::retry("again")),
                (3, _) if !slept.swap(true, Ordering::SeqCst) => {
                    Err(Failure::snooze(Duration::ZERO))
                }
                (4, _) if !away.swap(true, Ordering::SeqCst) => Err(Failure::outage("down")),
                (5, _) => Err(Failure::reject("never")),
                (6, 1) => panic!("ouch"),
                _ => Ok(()),
            },
        )
        .handle_in_transaction(|_: &Job<Finish>, tx| {
            tx.execute("INSERT INTO public.effects VALUES (1)", &[])?;
            Ok(())
        })
        .handle(|_: &Job<Hold>| Ok(()))
        .start()
        .unwrap();
    drained(&queue);
    wait_until("the job of a lost worker to be back", SOON, || {
        stats(&db, "lost").is_some_and(|stats| stats.ready == 1)
    });
    wait_until("the policy to send its letter", SOON, || {
        letters_in(&db, "nightly", LetterState::Open) == 0
    });
    wait_until("the old letter to be archived", SOON, || {
        db.letter(old).unwrap().is_none()
    });
    wait_until("the run to be driven", SOON, || {
        none_refused(&logged);
        db.run(run).unwrap().expect("the run").state == RunState::Finished
    });
    let stopped = stop(worker);
    assert_eq!(stopped.counts.dead, 1);
    assert!(stopped.counts.done >= 10, "{:?}", stopped.counts);
    none_refused(&logged);
}

/// Fails when the worker was refused anything.
#[track_caller]
fn none_refused(logged: &Logged) {
    let refused: Vec<String> = logged
        .lines()
        .into_iter()
        .filter(|line| line.contains("permission denied") || line.starts_with("ERROR"))
        .collect();
    assert!(refused.is_empty(), "\n{}\n", refused.join("\n"));
}
