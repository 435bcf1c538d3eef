//! Erasing a tenant: nothing of it is left but a record that it happened.

use redrive_tests::prelude::*;

use super::archive::archive_all;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct TenantOrder {
    tenant: u64,
    card: String,
}

impl Payload for TenantOrder {
    const KIND: &'static str = "order";
}

fn order(tenant: u64) -> NewJob {
    let card = format!("card-of-{tenant}");
    NewJob::new(&TenantOrder { tenant, card }).unwrap()
}

fn tenant(tenant: u64) -> LetterFilter {
    let filter = LetterFilter::new().payload("tenant", Comparison::Equal, tenant);
    filter.unwrap()
}

/// Makes a letter of each tenant. Its error message and detail name the card.
fn dead(queue: &Queue, tenants: &[u64]) -> Vec<JobId> {
    let ids = tenants.iter().map(|tenant| put(queue, order(*tenant)));
    let ids: Vec<JobId> = ids.collect();
    work_off(queue, |job: &Job<TenantOrder>| {
        let card = &job.payload().card;
        Err(Failure::reject(format!("declined {card}"))
            .detail(format!("at the till of {card}\n").repeat(20)))
    });
    ids
}

/// Every row of the database that contains a text, by table.
fn traces(test: &TestDatabase, text: &str) -> Vec<String> {
    let mut client = test.client();
    let tables = "SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'redrive'::regnamespace \
                  AND c.relkind = 'r' ORDER BY 1";
    let mut found = Vec::new();
    for table in client.column::<String>(tables, &[]) {
        let ask =
            format!("SELECT count(*) FROM redrive.{table} t WHERE t::text LIKE '%' || $1 || '%'");
        let rows: i64 = client.ask(&ask, &[&text]);
        if rows > 0 {
            found.push(format!("{table}: {rows}"));
        }
    }
    found
}

/// Makes a letter of tenant 7 with an earlier payload of tenant 42.
fn moved(test: &TestDatabase, queue: &Queue) -> JobId {
    let moved = dead(queue, &[42])[0];
    let set = Edit::set(r#"{"tenant": 7, "card": "card-of-7"}"#).unwrap();
    queue.database().edits(&only(moved), &set);
    let texts = "UPDATE redrive.dead_letters SET error_message = 'declined card-of-7', detail_id = NULL, history = '[]' WHERE id = $1";
    test.client().change(texts, &[&moved.get()]);
    moved
}

/// A database with traces of the tenants 42 and 7 in every place.
fn stage(test: &TestDatabase) -> Database {
    let queue = test.queue("orders");
    let db = queue.database().clone();
    dead(&queue, &[42, 42, 7]);
    // Archived.
    let mut archived = dead(&queue, &[42, 7]);
    archived.push(moved(test, &queue));
    let filter = LetterFilter::new().ids(archived);
    db.discards(&filter);
    let rule = RetentionRule::archive(LetterState::Discarded, Duration::ZERO);
    db.retains(&rule);
    assert_eq!(db.tidies_up(), 3);
    let retention = db.dlq().retention();
    let removed = retention.remove(None, LetterState::Discarded, &maria());
    assert!(removed.unwrap());
    moved(test, &queue);
    // Captured, redriven and waiting, ready, delayed, and unique.
    let raw = &br#"{"tenant":42, "card": "card-of-42"}"#[..];
    let event = ForeignFailure::new("kafka", "1", "orders", "order", raw);
    let captured = db.captures(&event);
    db.redrives(&only(captured));
    put(&queue, order(42).unique("one").group("card-of-42"));
    put(&queue, order(42).delay(HOUR));
    put(&queue, order(7));
    // In the audit.
    db.discards(&tenant(7));
    db.dlq().reopen(&tenant(7), &maria()).unwrap();
    db.discards(&tenant(42));
    db.discards(&tenant(420));
    db
}

#[test]
fn an_erased_tenant_leaves_only_a_record_that_it_happened() {
    let test = TestDatabase::migrated();
    let db = stage(&test);
    // Windows of unique keys and buckets of groups, which outlive their jobs.
    let insert = "INSERT INTO redrive.group_buckets VALUES ('orders', 'card-of-42', now() + interval '1 year');
         INSERT INTO redrive.unique_windows (queue, key, job_id, ends_at)
         SELECT 'orders', concat('card-of-', l.tenant, ' ', l.id), l.id, now() + interval '1 year'
         FROM (SELECT id, payload ->> 'tenant' AS tenant FROM redrive.dead_letters
               UNION ALL SELECT id, payload ->> 'tenant' FROM redrive.archived_letters) l";
    test.sql(insert);
    let left = traces(&test, "card-of-7");
    let found = db.dlq().erasable(&tenant(42)).unwrap();
    assert_eq!((found.jobs, found.leased, found.letters), (3, 0, 3));
    assert_eq!((found.versions, found.archived, found.audit), (2, 1, 1));
    assert!(!traces(&test, "card-of-42").is_empty());

    let erased = db.dlq().erase(&tenant(42), &maria()).unwrap();
    assert_eq!(erased, found, "the preview is the act");
    assert_eq!(traces(&test, "card-of-42"), Vec::<String>::new());
    assert_eq!(traces(&test, "card-of-7"), left);
    let again = db.dlq().erase(&tenant(42), &maria()).unwrap();
    assert!(again.is_empty(), "{again:?}");
    assert!(db.dlq().erasable(&tenant(42)).unwrap().is_empty());
    no_drift(&db);

    // The audit keeps other tenants' conditions, also of tenant 420, and a record of the erasure.
    let records = db.audit(&AuditFilter::new().limit(100));
    let filters = records.iter().filter_map(|record| record.filter.as_ref());
    let filters: String = filters.map(|filter| filter.get()).collect();
    lacks(&filters, "== 42)");
    has(&filters, "[erased]");
    has(&filters, "== 7)");
    let erasures = db.audit(&AuditFilter::new().verb("erase"));
    let [erasure] = &erasures[..] else {
        panic!("{erasures:?}")
    };
    assert_eq!(erasure.person.as_deref(), Some("maria@ops-1"));
    assert_eq!((erasure.letters, erasure.filter.is_none()), (3, true));
    let about: Value = serde_json::from_str(erasure.about.as_ref().unwrap().get()).unwrap();
    holds(&about, &json!({"jobs": 3, "archive": 1}));
    assert_eq!(stats(&db, "orders").expect("jobs").ready, 1);
}

#[test]
fn a_leased_job_stays_and_is_erased_when_the_erasure_is_repeated() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let id = dead(&queue, &[42])[0];
    db.redrives(&only(id));
    let gate = Gate::new();
    let declined = |_: &Job<TenantOrder>| Err(Failure::reject("declined card-of-42"));
    let held = worker(&queue).runs(gate.passing_to(declined));
    wait_until("the job to be leased", SOON, || {
        stats(db, "orders").expect("a job").leased == 1
    });
    let erase = "erase payload.tenant=42 --yes --json";
    let skipped = json!([{ "reason": "leased", "jobs": 1 }]);
    test.fails(1, erase)
        .holds(&json!({"skipped": skipped, "letters": 0}));
    assert!(db.dlq().get(id).unwrap().is_some(), "it stays with its job");
    gate.open();
    finish(&queue, held);
    test.run(erase).holds(&json!({"skipped": [], "letters": 1}));
    assert!(db.dlq().get(id).unwrap().is_none());
    no_drift(db);
}

/// Erases while another session holds something, which it commits after the first batch.
fn erase_beside(db: &Database, other: Client) -> Erasure {
    let other = Mutex::new(other);
    let db = db.each_batch(move |_| {
        other.lock().unwrap().sql("COMMIT");
        ControlFlow::Continue(())
    });
    db.dlq().erase(&tenant(42), &maria()).unwrap()
}

/// Another session has locked the job and will commit it in another place.
#[test]
fn a_job_that_moves_during_an_erasure_is_erased() {
    let promoted =
        "SELECT redrive.make_ready(ARRAY(SELECT ctid FROM redrive.jobs_delayed FOR UPDATE))";
    let cancelled = "SELECT redrive.change_jobs('cancel', '{}', NULL, NULL, 10, 'x', 'me', NULL)";
    let replaced = "SELECT redrive.enqueue('orders', 'order', '{}', '1 hour', unique_key => 'one', replace => 'time')";
    for (delay, moving) in [
        (HOUR, promoted),
        (Duration::ZERO, cancelled),
        (Duration::ZERO, replaced),
    ] {
        let (test, queue) = TestDatabase::with_orders();
        put(&queue, order(42).unique("one").delay(delay));
        let dlq = queue.database().dlq();
        let erased = erase_beside(queue.database(), test.begins(moving));
        assert_eq!(erased.jobs + erased.letters, 1, "{moving}");
        assert!(dlq.erasable(&tenant(42)).unwrap().is_empty(), "{moving}");
        no_drift(queue.database());
        let records = queue.database().audit(&AuditFilter::new().verb("erase"));
        // Only that of the batch that erased.
        assert_eq!(records.len(), 1, "{moving}");
    }
}

/// The letter is neither where it was nor where it will be.
#[test]
fn a_letter_that_is_redriven_or_restored_during_an_erasure_is_erased() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let redrive = "SELECT redrive.redrive('{}')";
    let restore = "SELECT redrive.restore_archived('{}', 0, 10, NULL, NULL)";
    for (is_archived, send) in [(false, redrive), (true, restore)] {
        dead(&queue, &[42]);
        if is_archived {
            assert_eq!(archive_all(db), 1);
        }
        let erased = erase_beside(db, test.begins(send));
        assert_eq!(erased.letters, 1, "{send}");
        assert!(db.dlq().erasable(&tenant(42)).unwrap().is_empty(), "{send}");
    }
}

#[test]
fn a_dry_run_erases_nothing_and_sql_erases_in_one_transaction() {
    let test = TestDatabase::migrated();
    let db = stage(&test);
    let before = traces(&test, "card-of-42");
    test.run("erase payload.tenant=42")
        .shows("waiting jobs")
        .shows("cannot be undone")
        .shows("--yes");
    // An erasure of some of the letters would leave the others.
    let (dlq, some) = (db.dlq(), tenant(42).limit(5));
    for refused in [dlq.erasable(&some), dlq.erase(&some, &maria())] {
        assert!(refused.expect_err("a limit").is_invalid());
    }
    let mut client = test.client();
    let erase = r#"SELECT concat_ws(' ', place, entries)
        FROM redrive.erase_batch('{"payload": "$.tenant == 42"}', 100, NULL, 'INC-7')"#;
    let mut transaction = client.transaction().unwrap();
    let erased: Vec<String> = transaction.column(erase, &[]);
    for place in ["jobs 3", "letters 3", "archive 1"] {
        assert!(erased.iter().any(|it| it == place), "{erased:?}");
    }
    transaction.rollback().unwrap();
    assert_eq!(traces(&test, "card-of-42"), before);
    client.query(erase, &[]).unwrap();
    assert_eq!(traces(&test, "card-of-42"), Vec::<String>::new());
}

/// The letter has died twice, of failures of different groups, and a rule has then moved it to a third
/// group. No mask removes the name in the texts.
#[test]
fn texts_of_earlier_deaths_and_of_groups_that_the_letter_left_are_erased() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database().clone();
    let dying = worker(&queue).runs(|job: &Job<TenantOrder>| {
        let (who, what) = match (job.payload().tenant, job.generation()) {
            (42, 0) => ("Maria Smith", "declined"),
            (42, _) => ("Maria Smith", "blocked"),
            (_, _) => ("Peter Jones", "unknown"),
        };
        Err(Failure::reject(format!("account of {who} is {what}"))
            .detail(format!("{what} at the till of {who}\n").repeat(20)))
    });
    let ids = [42, 7].map(|tenant| put(&queue, order(tenant)));
    drained(&queue);
    let hers = only(ids[0]);
    db.redrives(&hers);
    finish(&queue, dying);
    let call = "SELECT redrive.add_group_rule(o.group_id, n.group_id, NULL) \
                FROM redrive.dead_letters o, redrive.dead_letters n \
                WHERE o.payload ->> 'tenant' = '42' AND n.payload ->> 'tenant' = '7'; \
                SELECT redrive.regroup_letters(r.id, 100, NULL) FROM redrive.group_rules r";
    test.sql(call);
    let groups = "SELECT count(DISTINCT group_id) FROM redrive.dead_letters";
    assert_eq!(test.client().ask::<i64>(groups, &[]), 1);
    let hers = traces(&test, "Maria");
    assert!(hers.len() >= 3, "{hers:?}");
    let others = traces(&test, "Peter");

    db.dlq().erase(&tenant(42), &maria()).unwrap();
    assert_eq!(traces(&test, "Maria"), Vec::<String>::new());
    assert_eq!(traces(&test, "Peter"), others);
    no_drift(&db);
}
