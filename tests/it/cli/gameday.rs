//! `gameday`: a rehearsal leaves nothing but its audit, however it ends.

mod alert;

use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;

use postgres::Client;
use redrive::Database;
use redrive_tests::{SOON, TestDatabase, fold, no_drift, ran_at, wait_until};

use super::{letters, redrive};

/// An installation with a waiting job, letters, and the run of another queue.
fn installation() -> TestDatabase {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    letters(&test, &queue, 3);
    redrive(&test, &["enqueue", "waiting", "order", "{}"]).exits_with(0);
    redrive(&test, &["dlq", "redrive", "orders", "--detach", "--yes"]).exits_with(0);
    redrive(&test, &["dlq", "runs", "cancel", "1"]).exits_with(0);
    test
}

/// Each table with its number of rows and a digest of them, after all counts were folded.
///
/// The audit only grows. Chores of every worker change the ring, the compactions and the audit of the
/// counters, and counters without a queue count those chores.
fn tables(client: &mut Client) -> Vec<(String, i64, Option<String>)> {
    fold(client);
    client
        .batch_execute("SELECT redrive.fold_letters(); SELECT redrive.fold_runs(); SELECT redrive.fold_metrics()")
        .unwrap();
    let names = "SELECT c.relname::text FROM pg_class c \
                 WHERE c.relnamespace = 'redrive'::regnamespace AND c.relkind = 'r' \
                     AND c.relname NOT IN ('audit', 'migrations', 'definitions', 'ring_segments', 'compactions', 'metric_drift') \
                 ORDER BY c.relname";
    let names = client.query(names, &[]).unwrap();
    let digest = |row: postgres::Row| {
        let name: String = row.get(0);
        let queues = match &*name {
            "metric_values" => "t.queue <> ''",
            _ => "true",
        };
        let digest = format!(
            "SELECT count(*), md5(string_agg(t::text, ';' ORDER BY t::text)) FROM redrive.{name} t WHERE {queues}"
        );
        let row = client.query_one(&digest, &[]).unwrap();
        (name, row.get(0), row.get(1))
    };
    names.into_iter().map(digest).collect()
}

/// Fails unless the tables are as before and no queue of a rehearsal has statistics.
#[track_caller]
fn nothing_is_left(test: &TestDatabase, before: &[(String, i64, Option<String>)]) {
    let after = tables(&mut test.client());
    let changed: Vec<_> = before.iter().zip(&after).filter(|(a, b)| a != b).collect();
    assert!(changed.is_empty(), "{changed:#?}");
    let db: Database = test.open();
    let stats = db.admin().stats(None).unwrap();
    assert!(
        stats
            .iter()
            .all(|queue| !queue.queue.starts_with("gameday"))
    );
    no_drift(&db);
}

#[test]
fn each_rehearsal_reports_its_outcomes_and_leaves_every_table_as_it_was() {
    let test = installation();
    let mut client = test.client();
    let before = tables(&mut client);
    assert!(before.len() > 30, "{before:?}");
    for (mode, groups, valid, edited) in [
        (
            "timeout",
            "9 letters in 1 failure group: 9 Timeout",
            Some(9),
            false,
        ),
        (
            "schema",
            "9 letters in 1 failure group: 9 SchemaError",
            Some(0),
            true,
        ),
        (
            "crash",
            "9 letters in 1 failure group: 9 panic",
            Some(9),
            false,
        ),
        ("random", "9 letters in ", None, false),
    ] {
        let played = redrive(
            &test,
            &["gameday", "--fail", mode, "--jobs", "9", "--yes", "--json"],
        )
        .exits_with(0);
        let steps = played.lines();
        let step = |name: &str| {
            let found = steps.iter().find(|step| step["step"] == name);
            found.unwrap_or_else(|| panic!("{name}: {}", played.out))
        };
        let text = |name: &str| step(name)["text"].as_str().unwrap();
        assert_eq!(text("enqueue"), "9 jobs of the kind gameday enqueued");
        assert_eq!(text("fail"), "9 jobs died");
        assert!(text("letters").starts_with(groups), "{}", text("letters"));
        assert_eq!(text("alert"), "skipped, no --prometheus");
        if let Some(valid) = valid {
            let counts = format!("{valid} would pass, {} would fail", 9 - valid);
            assert_eq!(text("validate"), counts);
            assert_eq!(step("edit")["outcome"] == "done", edited, "{mode}");
        }
        assert!(
            text("redrive").ends_with("9 sent, 9 recovered, 0 died again"),
            "{}",
            text("redrive")
        );
        assert_eq!(text("report"), "9 died, 9 recovered, 0 left");
        assert_eq!(text("clean"), "9 jobs and letters removed; the audit stays");
        nothing_is_left(&test, &before);
    }
    let queues = "SELECT count(DISTINCT about ->> 'queue') FROM redrive.audit \
                  WHERE verb = 'remove_gameday' AND letters = 9";
    let audited: i64 = client.query_one(queues, &[]).unwrap().get(0);
    assert_eq!(audited, 4);
}

#[test]
fn a_dry_run_and_a_refused_name_touch_nothing() {
    let test = installation();
    let mut client = test.client();
    let before = tables(&mut client);
    let acts = |client: &mut Client| -> i64 {
        let row = client.query_one("SELECT count(*) FROM redrive.audit", &[]);
        row.unwrap().get(0)
    };
    let audited = acts(&mut client);
    let dry = redrive(&test, &["gameday", "--fail", "schema"]).exits_with(0);
    for text in [
        "enqueue 20 jobs into a new queue",
        "Nothing was changed. To act, repeat the command with --yes.",
    ] {
        assert!(dry.out.contains(text), "{}", dry.out);
    }
    for queue in [
        "orders",
        "gameday-",
        "gameday-0123456789AB",
        "gameday-0123456789abc",
    ] {
        let refused = redrive(&test, &["gameday", "--clean", queue]).exits_with(2);
        let text = format!("'{queue}' is not the queue of a rehearsal");
        assert!(refused.err.contains(&text), "{}", refused.err);
    }
    nothing_is_left(&test, &before);
    assert_eq!(acts(&mut client), audited);
}

#[test]
fn a_kept_rehearsal_is_removed_by_its_command() {
    let test = installation();
    let before = tables(&mut test.client());
    let kept = redrive(&test, &["gameday", "--jobs", "3", "--keep", "--yes"]).exits_with(0);
    let (_, command) = kept
        .err
        .split_once("to remove it: redrive ")
        .expect("a command");
    let words: Vec<&str> = command.lines().next().unwrap().split(' ').collect();
    let removed = redrive(&test, &words).exits_with(0);
    assert!(
        removed.out.contains("3 jobs and letters removed"),
        "{}",
        removed.out
    );
    nothing_is_left(&test, &before);
    let again = redrive(&test, &words).exits_with(1);
    assert!(
        again.out.contains("0 jobs and letters removed"),
        "{}",
        again.out
    );
}

/// A rehearsal in a process, which waits for an alert that never fires.
struct Waiting {
    child: Child,
    queue: String,
}

impl Waiting {
    fn start(test: &TestDatabase) -> Waiting {
        let child = Command::new(env!("CARGO_BIN_EXE_test_cli"))
            .args([
                "--database-url",
                test.url(),
                "gameday",
                "--jobs",
                "5",
                "--yes",
            ])
            .args(["--prometheus", "http://127.0.0.1:1", "--alert-within", "1h"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("start a rehearsal");
        let mut client = test.client();
        let queue = "SELECT min(l.queue) FROM redrive.dead_letters l WHERE l.queue LIKE 'gameday-%' \
                     HAVING count(*) = 5 AND NOT EXISTS (SELECT FROM redrive.workers)";
        let mut found = None;
        wait_until("the letters of a rehearsal", SOON, || {
            found = client.query_opt(queue, &[]).unwrap();
            found.is_some()
        });
        let queue = found.expect("a row").get(0);
        Waiting { child, queue }
    }

    fn signal(&mut self, signal: &str) -> ExitStatus {
        let id = self.child.id().to_string();
        let sent = Command::new("kill").args([signal, &id]).status();
        assert!(sent.expect("send a signal").success());
        self.child.wait().expect("wait for its end")
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        // It may have ended already.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

#[test]
fn a_killed_rehearsal_is_removed_by_name() {
    let test = installation();
    let before = tables(&mut test.client());
    let mut killed = Waiting::start(&test);
    assert!(!killed.signal("-KILL").success());
    redrive(&test, &["gameday", "--clean", &killed.queue]).exits_with(0);
    nothing_is_left(&test, &before);
}

#[test]
fn a_signal_ends_a_rehearsal_and_removes_its_queue() {
    let test = installation();
    let before = tables(&mut test.client());
    let mut interrupted = Waiting::start(&test);
    assert_eq!(interrupted.signal("-INT").code(), Some(1));
    nothing_is_left(&test, &before);
}

/// Leased jobs, a delayed job, a unique key, versions, and folded and unfolded counts are removed too.
#[test]
fn a_rehearsal_that_was_cut_off_while_it_worked_is_removed() {
    let test = installation();
    let mut client = test.client();
    let before = tables(&mut client);
    let name = "gameday-0123456789ab";
    let queue = test.queue(name);
    letters(&test, &queue, 2);
    let folded = tables(&mut client);
    for table in ["failure_hours", "metric_slots", "metric_values"] {
        let rows =
            |of: &[(String, i64, Option<String>)]| of.iter().find(|t| t.0 == table).unwrap().1;
        assert!(rows(&folded) > rows(&before), "{table}");
    }
    for options in [&["--delay", "1h"][..], &["--unique", "k"]] {
        redrive(
            &test,
            &[&["enqueue", name, "gameday", "{}"], options].concat(),
        )
        .exits_with(0);
    }
    let edit = ["dlq", "edit", name, "--merge", "{\"a\": 1}", "--yes"];
    redrive(&test, &edit).exits_with(0);
    redrive(&test, &["dlq", "redrive", name, "--detach", "--yes"]).exits_with(0);
    let lease = "INSERT INTO redrive.leases (lease_id, worker_id, queue, ids, kinds, payloads, enqueued_at) \
                 VALUES (gen_random_uuid(), gen_random_uuid(), $1::text, '{900}', '{gameday}', \
                         ARRAY['{}'::json], ARRAY[now()])";
    client.execute(lease, &[&name]).unwrap();
    let removed = redrive(&test, &["gameday", "--clean", name]).exits_with(0);
    assert!(
        removed.out.contains("5 jobs and letters removed"),
        "{}",
        removed.out
    );
    nothing_is_left(&test, &before);
}

/// A role with professions, removed at the end of the test.
struct Rehearser {
    owner: Client,
    name: String,
    url: String,
}

impl Rehearser {
    fn new(test: &TestDatabase) -> Rehearser {
        let name = format!("gameday_{}", test.name());
        let mut owner = test.client();
        let create = format!("CREATE ROLE {name} LOGIN");
        owner.batch_execute(&create).unwrap();
        let (scheme, rest) = test.url().split_once("://").expect("a URL");
        let address = rest.split_once('@').map_or(rest, |(_, address)| address);
        let url = format!("{scheme}://{name}@{address}");
        Rehearser { owner, name, url }
    }

    fn grant(&mut self, profession: &str) {
        let grant = "SELECT redrive.grant_role($1, $2)";
        self.owner
            .execute(grant, &[&self.name, &profession])
            .unwrap();
    }
}

impl Drop for Rehearser {
    fn drop(&mut self) {
        let name = &self.name;
        let dropped = self
            .owner
            .batch_execute(&format!("DROP OWNED BY {name}; DROP ROLE {name}"));
        if !thread::panicking() {
            dropped.unwrap();
        }
    }
}

#[test]
fn an_operator_who_is_also_a_worker_may_rehearse() {
    let test = installation();
    let before = tables(&mut test.client());
    let mut role = Rehearser::new(&test);
    let play = ["gameday", "--fail", "random", "--jobs", "5", "--yes"];
    role.grant("operator");
    let denied = ran_at(&role.url, &play).exits_with(2);
    for text in ["permission denied", "also needs the role worker"] {
        assert!(denied.err.contains(text), "{}", denied.err);
    }
    nothing_is_left(&test, &before);
    role.grant("worker");
    let played = ran_at(&role.url, &play).exits_with(0);
    assert!(
        played.out.contains("5 died, 5 recovered, 0 left"),
        "{}",
        played.out
    );
    nothing_is_left(&test, &before);
}
