//! Erasing a tenant: nothing of it is left but a record that it happened.

use std::time::Duration;

use redrive::admin::AuditFilter;
use redrive::dlq::{
    Comparison, Edit, ForeignFailure, GroupFilter, LetterFilter, LetterState, RetentionRule,
};
use redrive::{Database, Failure, Job, JobId, NewJob, Operator, Queue};
use redrive_tests::{
    Begin, Gate, SOON, TestDatabase, drained, no_drift, ran, stats, stop, wait_until, worker,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Clone, Debug, Serialize, Deserialize)]
struct TenantOrder {
    tenant: u64,
    card: String,
}

impl redrive::Payload for TenantOrder {
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

fn operator() -> Operator {
    Operator::new("maria@ops-1").reason("request 1207")
}

/// Makes a letter of each tenant. Its error message and detail name the card.
fn dead(queue: &Queue, tenants: &[u64]) -> Vec<JobId> {
    let ids: Vec<JobId> = tenants
        .iter()
        .map(|tenant| queue.enqueue_job(order(*tenant)).unwrap().id())
        .collect();
    let dying = worker(queue)
        .handle(|job: &Job<TenantOrder>| {
            let card = &job.payload().card;
            Err(Failure::reject(format!("declined {card}"))
                .detail(format!("at the till of {card}\n").repeat(20)))
        })
        .started();
    drained(queue);
    stop(dying);
    ids
}

/// Every row of the database that contains a text, by table.
fn traces(test: &TestDatabase, text: &str) -> Vec<String> {
    let mut client = test.client();
    let tables = client
        .query(
            "SELECT c.relname::text FROM pg_class c WHERE c.relnamespace = 'redrive'::regnamespace \
             AND c.relkind = 'r' ORDER BY 1",
            &[],
        )
        .unwrap();
    let mut found = Vec::new();
    for table in tables {
        let table: String = table.get(0);
        let ask =
            format!("SELECT count(*) FROM redrive.{table} t WHERE t::text LIKE '%' || $1 || '%'");
        let rows: i64 = client.query_one(&ask, &[&text]).unwrap().get(0);
        if rows > 0 {
            found.push(format!("{table}: {rows}"));
        }
    }
    found
}

/// A database with traces of the tenants 42 and 7 in every place.
fn stage(test: &TestDatabase) -> (Queue, Database) {
    let queue = test.queue("orders");
    let db = queue.database().clone();
    dead(&queue, &[42, 42, 7]);
    // Archived.
    let archived = dead(&queue, &[42, 7]);
    let filter = LetterFilter::new().ids(archived);
    db.dlq().discard(&filter, &operator()).unwrap();
    let rule = RetentionRule::archive(LetterState::Discarded, Duration::ZERO);
    db.dlq().retention().set(&rule, &operator()).unwrap();
    assert_eq!(db.dlq().retention().apply(&operator()).unwrap(), 2);
    db.dlq()
        .retention()
        .remove(None, LetterState::Discarded, &operator())
        .unwrap();
    // An earlier payload of a letter that is now another tenant's.
    let moved = dead(&queue, &[42])[0];
    let set = Edit::set(r#"{"tenant": 7, "card": "card-of-7"}"#).unwrap();
    db.dlq()
        .edit(&LetterFilter::new().ids([moved]), &set, &operator())
        .unwrap();
    test.client()
        .execute(
            "UPDATE redrive.dead_letters SET error_message = 'declined card-of-7', history = '[]' WHERE id = $1",
            &[&moved.get()],
        )
        .unwrap();
    // Captured, redriven and waiting, ready, delayed, and unique.
    let event = ForeignFailure::new(
        "kafka",
        "1",
        "orders",
        "order",
        &br#"{"tenant":42, "card": "card-of-42"}"#[..],
    );
    let captured = db.dlq().capture(&event).unwrap().id();
    db.dlq()
        .redrive(&LetterFilter::new().ids([captured]), &operator())
        .unwrap();
    queue.enqueue_job(order(42).unique("one")).unwrap();
    queue
        .enqueue_job(order(42).delay(Duration::from_hours(1)))
        .unwrap();
    queue.enqueue_job(order(7)).unwrap();
    // In the audit.
    db.dlq().discard(&tenant(7), &operator()).unwrap();
    db.dlq().reopen(&tenant(7), &operator()).unwrap();
    db.dlq().discard(&tenant(42), &operator()).unwrap();
    db.dlq().discard(&tenant(420), &operator()).unwrap();
    (queue, db)
}

#[test]
fn an_erased_tenant_leaves_only_a_record_that_it_happened() {
    let test = TestDatabase::migrated();
    let (_queue, db) = stage(&test);
    let left = traces(&test, "card-of-7");
    let found = db.dlq().erasable(&tenant(42)).unwrap();
    assert_eq!((found.jobs, found.leased, found.letters), (3, 0, 3));
    assert_eq!((found.versions, found.archived, found.audit), (1, 1, 1));
    assert!(!traces(&test, "card-of-42").is_empty());

    let erased = db.dlq().erase(&tenant(42), &operator()).unwrap();
    let mut expected = found;
    expected.groups = erased.groups;
    assert_eq!(erased, expected, "the preview is the act");
    assert_eq!(traces(&test, "card-of-42"), Vec::<String>::new());
    let mut other = traces(&test, "card-of-7");
    // The group's sample is now the message of one of its other letters.
    other.retain(|place| place != "groups: 1");
    assert_eq!(other, left);
    let again = db.dlq().erase(&tenant(42), &operator()).unwrap();
    assert!(again.is_empty(), "{again:?}");
    assert!(db.dlq().erasable(&tenant(42)).unwrap().is_empty());
    no_drift(&db);

    // The audit keeps other tenants' conditions, also of tenant 420, and a record of the erasure.
    let records = db.admin().audit(&AuditFilter::new().limit(100)).unwrap();
    let filters: Vec<String> = records
        .iter()
        .filter_map(|record| Some(record.filter.as_ref()?.get().to_owned()))
        .collect();
    assert!(
        !filters.iter().any(|filter| filter.contains("== 42)")),
        "{filters:?}"
    );
    assert!(
        filters.iter().any(|filter| filter.contains("[erased]")),
        "{filters:?}"
    );
    assert!(
        filters.iter().any(|filter| filter.contains("== 7)")),
        "{filters:?}"
    );
    let erasures: Vec<_> = records
        .iter()
        .filter(|record| record.verb == "erase")
        .collect();
    assert_eq!(erasures.len(), 1);
    assert_eq!(erasures[0].person.as_deref(), Some("maria@ops-1"));
    assert_eq!(erasures[0].letters, 3);
    assert!(erasures[0].filter.is_none());
    let about: Value = serde_json::from_str(erasures[0].about.as_ref().unwrap().get()).unwrap();
    assert_eq!((&about["jobs"], &about["archive"]), (&3.into(), &1.into()));
    // The sample comes from another letter.
    let groups = db.dlq().groups().list(&GroupFilter::new()).unwrap();
    assert_eq!(groups[0].sample, "declined card-of-7");
    assert_eq!(stats(&db, "orders").expect("jobs").ready, 1);
}

#[test]
fn a_leased_job_stays_and_is_erased_when_the_erasure_is_repeated() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database();
    let id = dead(&queue, &[42])[0];
    db.dlq()
        .redrive(&LetterFilter::new().ids([id]), &operator())
        .unwrap();
    let gate = Gate::new();
    let held = worker(&queue)
        .handle({
            let gate = gate.clone();
            move |_: &Job<TenantOrder>| {
                gate.pass();
                Err(Failure::reject("declined card-of-42"))
            }
        })
        .started();
    wait_until("the job to be leased", SOON, || {
        stats(db, "orders").expect("a job").leased == 1
    });
    let erase = ["erase", "payload.tenant=42", "--yes", "--json"];
    let first = ran(&test, &erase).exits_with(1);
    let first: Value = serde_json::from_str(&first.out).unwrap();
    assert_eq!(
        (&first["skipped"], &first["letters"]),
        (
            &serde_json::json!([{ "reason": "leased", "jobs": 1 }]),
            &0.into()
        )
    );
    assert!(
        db.dlq().get(id).unwrap().is_some(),
        "the letter stays with its job"
    );
    gate.open();
    drained(&queue);
    stop(held);
    let second = ran(&test, &erase).exits_with(0);
    let second: Value = serde_json::from_str(&second.out).unwrap();
    assert_eq!(
        (&second["skipped"], &second["letters"]),
        (&serde_json::json!([]), &1.into())
    );
    assert!(db.dlq().get(id).unwrap().is_none());
    no_drift(db);
}

#[test]
fn an_erasure_needs_a_condition_on_the_payload_or_an_id() {
    let test = TestDatabase::migrated();
    for (conditions, complaint) in [
        (&["orders"][..], "needs a condition on the payload, or ids"),
        (&["payload.tenant=42", "class=Timeout"], "not by class"),
        (&["payload.tenant=42", "state=open"], "not by state"),
    ] {
        let command = [&["erase"], conditions, &["--yes"]].concat();
        let refused = ran(&test, &command).exits_with(2);
        assert!(refused.err.contains(complaint), "{}", refused.err);
    }
    ran(&test, &["erase"]).exits_with(2);
    ran(&test, &["erase", "payload.tenant=42"]).exits_with(1);
}

#[test]
fn an_erasure_is_a_dry_run_until_it_is_confirmed() {
    let test = TestDatabase::migrated();
    let (_queue, db) = stage(&test);
    let before = traces(&test, "card-of-42");
    let dry = ran(&test, &["erase", "payload.tenant=42"]).exits_with(0);
    for text in ["waiting jobs", "cannot be undone", "--yes"] {
        assert!(dry.out.contains(text), "{}", dry.out);
    }
    assert_eq!(traces(&test, "card-of-42"), before);
    let erased = ran(
        &test,
        &[
            "erase",
            "payload.tenant=42",
            "--reason",
            "request 1207",
            "--yes",
        ],
    );
    assert!(erased.exits_with(0).out.contains("archived letters"));
    assert!(db.dlq().erasable(&tenant(42)).unwrap().is_empty());
}

#[test]
fn an_erasure_from_sql_is_one_transaction() {
    let test = TestDatabase::migrated();
    stage(&test);
    let mut client = test.client();
    let erase = r#"SELECT place, entries
        FROM redrive.erase('{"payload": "$.tenant == 42"}', 'request 1207')"#;
    let mut transaction = client.transaction().unwrap();
    let rows = transaction.query(erase, &[]).unwrap();
    let of = |place: &str| -> i64 {
        let row = rows.iter().find(|row| row.get::<_, &str>("place") == place);
        row.expect("the place").get("entries")
    };
    assert_eq!((of("jobs"), of("letters"), of("archive")), (3, 3, 1));
    transaction.rollback().unwrap();
    assert!(!traces(&test, "card-of-42").is_empty());
    client.query(erase, &[]).unwrap();
    assert_eq!(traces(&test, "card-of-42"), Vec::<String>::new());
}

/// The letter has died twice, of failures of different groups, and a rule has then moved it to a third
/// group. No mask removes the name in the texts.
#[test]
fn texts_of_earlier_deaths_and_of_groups_that_the_letter_left_are_erased() {
    let (test, queue) = TestDatabase::with_orders();
    let db = queue.database().clone();
    let dying = worker(&queue)
        .handle(|job: &Job<TenantOrder>| {
            let (who, what) = match (job.payload().tenant, job.generation()) {
                (42, 0) => ("Maria Smith", "declined"),
                (42, _) => ("Maria Smith", "blocked"),
                (_, _) => ("Peter Jones", "unknown"),
            };
            Err(Failure::reject(format!("account of {who} is {what}"))
                .detail(format!("{what} at the till of {who}\n").repeat(20)))
        })
        .started();
    let ids = [42, 7].map(|tenant| queue.enqueue_job(order(tenant)).unwrap().id());
    drained(&queue);
    let hers = LetterFilter::new().ids([ids[0]]);
    db.dlq().redrive(&hers, &operator()).unwrap();
    drained(&queue);
    stop(dying);
    let mut client = test.client();
    client
        .batch_execute(
            "SELECT redrive.add_group_rule(o.group_id, 'merge', n.group_id, NULL) \
             FROM redrive.dead_letters o, redrive.dead_letters n \
             WHERE o.payload ->> 'tenant' = '42' AND n.payload ->> 'tenant' = '7'; \
             SELECT redrive.regroup_letters(r.id, 100, NULL) FROM redrive.group_rules r",
        )
        .unwrap();
    let groups = "SELECT count(DISTINCT group_id) FROM redrive.dead_letters";
    assert_eq!(client.query_one(groups, &[]).unwrap().get::<_, i64>(0), 1);
    assert!(
        traces(&test, "Maria").len() >= 3,
        "{:?}",
        traces(&test, "Maria")
    );
    let others = traces(&test, "Peter");

    db.dlq().erase(&tenant(42), &operator()).unwrap();
    assert_eq!(traces(&test, "Maria"), Vec::<String>::new());
    assert_eq!(traces(&test, "Peter"), others);
    no_drift(&db);

    // The failure happens again, and its group has texts again.
    dead_of(&queue, 8, "account of Maria Smith is declined");
    let groups = db.dlq().groups().list(&GroupFilter::new()).unwrap();
    let again = groups
        .iter()
        .find(|group| group.open == 1 && group.deaths == 2);
    let again = again.unwrap_or_else(|| panic!("{groups:#?}"));
    assert_eq!(again.title, "account of Maria Smith is declined");
}

/// Makes a letter with this message.
fn dead_of(queue: &Queue, tenant: u64, message: &'static str) {
    queue.enqueue_job(order(tenant)).unwrap();
    let dying = worker(queue)
        .handle(move |_: &Job<TenantOrder>| Err(Failure::reject(message)))
        .started();
    drained(queue);
    stop(dying);
}
