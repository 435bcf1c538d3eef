//! A plain role: no superuser, only the default extension, and an empty search path. Everything
//! works.

use std::ffi::OsString;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use postgres::{Client, NoTls};
use redrive::dlq::runs::{Rate, RunOptions};
use redrive::dlq::{Edit, ForeignFailure, LetterFilter, LetterState, Policy};
use redrive::metrics::Reader;
use redrive::{Database, Enqueued, Failure, Job, NewJob, Operator, Queue};
use redrive_tests::{
    Begin, Finish, Logged, Order, SOON, Sql, TestDatabase, drained, letters_in, no_drift, read,
    stats, stop, wait_until, worker,
};

/// A database owned by a role without other rights, with an empty search path.
struct Plain {
    role: String,
    server: Client,
    test: TestDatabase,
}

impl Plain {
    fn new() -> Plain {
        let test = TestDatabase::empty();
        let mut server = test.client();
        let role = test.name().replace("redrive_test_", "plain_");
        let name = test.name();
        server.sql(&format!(
            "CREATE ROLE {role} LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOINHERIT; \
                 ALTER DATABASE {name} OWNER TO {role}; \
                 REVOKE ALL ON SCHEMA public FROM PUBLIC; \
                 REVOKE ALL ON DATABASE {name} FROM PUBLIC; \
                 ALTER DATABASE {name} SET search_path = ''; \
                 ALTER ROLE {role} SET search_path = ''"
        ));
        Plain { role, server, test }
    }

    fn url(&self) -> String {
        let (scheme, rest) = self.test.url().split_once("://").expect("a URL");
        let address = rest.split_once('@').map_or(rest, |(_, address)| address);
        format!("{scheme}://{}@{address}", self.role)
    }

    fn open(&self) -> Database {
        redrive::connect(&self.url()).unwrap()
    }

    fn client(&self) -> Client {
        Client::connect(&self.url(), NoTls).unwrap()
    }

    /// Runs a command that succeeds and returns its output.
    #[track_caller]
    fn types(&self, arguments: &[&str]) -> String {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let url = self.url();
        let program = ["redrive", "--database-url", &url, "--no-wait"];
        let all = program.iter().chain(arguments).map(OsString::from);
        let code = redrive_cli::run(all, &mut out, &mut err);
        let output = String::from_utf8_lossy(&err);
        assert_eq!(code, ExitCode::SUCCESS, "{arguments:?}: {output}");
        String::from_utf8(out).expect("UTF-8")
    }
}

impl Drop for Plain {
    fn drop(&mut self) {
        let role = &self.role;
        let gone = self.server.batch_execute(&format!(
            "ALTER DATABASE {} OWNER TO CURRENT_USER; REASSIGN OWNED BY {role} TO CURRENT_USER; \
             DROP OWNED BY {role}; DROP ROLE {role}",
            self.test.name()
        ));
        if !std::thread::panicking() {
            gone.unwrap();
        }
    }
}

#[test]
fn a_role_without_superuser_or_search_path_can_do_everything() {
    let logged = Logged::start(log::LevelFilter::Warn);
    let plain = Plain::new();
    let db = plain.open();
    db.migrate().unwrap();
    let mut client = plain.client();
    assert_eq!(ask(&mut client, "SHOW search_path"), "\"\"");
    let extensions = "SELECT string_agg(e.extname, ',') FROM pg_extension e";
    assert_eq!(ask(&mut client, extensions), "plpgsql");
    client.sql("CREATE SCHEMA shop; CREATE TABLE shop.effects (number bigint)");

    let queue = Queue::new(&db, "orders").unwrap();
    enqueue(&queue, &mut client);
    work(&queue, &mut client);
    type_commands(&plain);

    // The exporter: the owner can grant its role everything except the transactions of others.
    let reading = read(&mut Reader::new("1"), &mut plain.client());
    assert!(reading.failures.is_empty(), "{:?}", reading.failures);
    assert!(reading.is_ready());

    let troubles: Vec<String> = logged
        .lines()
        .into_iter()
        .filter(|line| line.starts_with("ERROR"))
        .collect();
    assert!(troubles.is_empty(), "\n{}\n", troubles.join("\n"));
}

fn ask(client: &mut Client, question: &str) -> String {
    client.query_one(question, &[]).unwrap().get(0)
}

/// Enqueues jobs in every way.
fn enqueue(queue: &Queue, client: &mut Client) {
    queue.enqueue_many(&Order::up_to(8)).unwrap();
    queue.enqueue_many(&Order::up_to(1001)).unwrap();
    queue
        .enqueue_job(
            NewJob::new(&Order { number: 9 })
                .unwrap()
                .delay(Duration::from_millis(1)),
        )
        .unwrap();
    let unique = || NewJob::new(&Order { number: 10 }).unwrap().unique("ten");
    let first = queue.enqueue_job(unique()).unwrap().id();
    assert_eq!(
        queue.enqueue_job(unique()).unwrap(),
        Enqueued::Existing(first)
    );
    let mut transaction = client.transaction().unwrap();
    queue.enqueue_in(&mut transaction, &Finish {}).unwrap();
    transaction.commit().unwrap();
    let by_sql = "SELECT redrive.enqueue('orders', 'order', '{\"number\": 11}', priority => 5, unique_key => 'sql')::text";
    ask(client, by_sql);
}

/// Runs jobs to every outcome, and redrives letters in every way.
fn work(queue: &Queue, client: &mut Client) {
    let db = queue.database();
    // Done, retried, snoozed, dead, panicking, and in a transaction.
    let fixed = std::sync::Arc::new(AtomicBool::new(false));
    let slept = AtomicBool::new(false);
    let working = worker(queue)
        .slots(4)
        .lease(Duration::from_secs(2))
        .handle({
            let fixed = std::sync::Arc::clone(&fixed);
            move |job: &Job<Order>| match (job.payload().number, job.attempt()) {
                (1, 1) => Err(Failure::retry("again")),
                (2, _) if !slept.swap(true, Ordering::SeqCst) => {
                    Err(Failure::snooze(Duration::ZERO))
                }
                (3, 1) => panic!("ouch"),
                (4..=7, _) if !fixed.load(Ordering::SeqCst) => {
                    Err(Failure::reject("no such order").class("NoOrder"))
                }
                _ => Ok(()),
            }
        })
        .handle_in_transaction(|_: &Job<Finish>, tx| {
            tx.execute("INSERT INTO shop.effects VALUES (1)", &[])?;
            Ok(())
        })
        .started();
    drained(queue);
    let effects = "SELECT count(*)::text FROM shop.effects";
    assert_eq!(ask(client, effects), "1");
    assert_eq!(letters_in(db, "orders", LetterState::Open), 8);

    // Letters: listed, counted, edited, redriven by hand, by a run and by a policy, captured.
    // Plans cannot rot: a hot statement reads by its index and touches few pages, however little the
    let some = |limit| {
        LetterFilter::new()
            .queue("orders")
            .error_class("NoOrder")
            .limit(limit)
    };
    let operator = Operator::new("maria@ops-1").reason("fixed");
    assert_eq!(db.dlq().count(&some(100)).unwrap().letters, 8);
    let edit = Edit::merge(r#"{"currency": "EUR"}"#).unwrap();
    assert_eq!(
        db.dlq()
            .edit(&some(1), &edit, &operator)
            .unwrap()
            .edited
            .len(),
        1
    );
    fixed.store(true, Ordering::SeqCst);
    assert_eq!(
        db.dlq()
            .redrive(&some(2), &operator)
            .unwrap()
            .redriven
            .len(),
        2
    );
    let options = RunOptions::new().rate(Rate::Unthrottled);
    db.dlq()
        .runs()
        .create(&some(2), &options, &operator)
        .unwrap()
        .unwrap();
    let policy =
        Policy::new("nightly", LetterFilter::new().queue("nightly")).every(Duration::from_secs(1));
    db.dlq().policies().set(&policy, &operator).unwrap();
    let foreign = ForeignFailure::new("kafka", "3/18", "nightly", "order", r#"{"number": 1}"#);
    db.dlq().capture(&foreign).unwrap();
    ask(
        client,
        "SELECT id::text FROM redrive.capture('kafka', '3/19', 'orders', 'order', '\\x7b', error_class => 'Parse')",
    );
    client.sql("UPDATE redrive.dead_letters SET died_at = died_at - interval '2 hours' WHERE queue = 'nightly'");
    wait_until("the run and the policy to send their letters", SOON, || {
        letters_in(db, "nightly", LetterState::Open) == 0
            && letters_in(db, "orders", LetterState::Recovered) == 4
    });
    stop(working);
    for statement in [
        "SELECT redrive.redrive('{\"class\": \"NoOrder\"}', reason => 'fixed', max_letters => 1)",
        "SELECT redrive.discard('{\"class\": \"NoOrder\"}', reason => 'test data', max_letters => 1)",
        "SELECT redrive.turn_ring(8192, 1000)",
        "SELECT redrive.fold_metrics()",
        "SELECT * FROM redrive.live_jobs, redrive.letters, redrive.dlq_events, redrive.queues, redrive.runs",
    ] {
        client.sql(statement);
    }
    no_drift(db);
    assert!(stats(db, "orders").is_some_and(|stats| stats.discarded == 1));
}

/// The command line.
fn type_commands(plain: &Plain) {
    plain.types(&["migrate", "--check"]);
    plain.types(&["enqueue", "mails", "mail", "{}"]);
    plain.types(&["work", "mails", "--exec", "exit 65", "--drain"]);
    assert!(plain.types(&["dlq"]).contains("mails"));
    assert!(plain.types(&["dlq", "list", "mails"]).contains("mail"));
    plain.types(&["dlq", "groups"]);
    plain.types(&["dlq", "redrive", "mails", "--yes"]);
    plain.types(&["work", "mails", "--exec", "true", "--drain"]);
    plain.types(&["stats"]);
    plain.types(&["audit"]);
}
