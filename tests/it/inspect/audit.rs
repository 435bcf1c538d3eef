//! The audit: every operation is in it with operator and reason, and no row changes.

use redrive_tests::prelude::*;

#[test]
fn an_operation_is_audited_with_operator_and_reason_newest_first() {
    let (_test, queue, _) = TestDatabase::with_letters(1);
    let db = queue.database();
    assert!(db.audit(&AuditFilter::new()).is_empty());
    let group = db.groups(&GroupFilter::new())[0].id;
    let operator = Operator::new("maria@ops").reason("fixed\0 in 1.4");
    for (state, operator) in [
        (GroupState::Resolved, operator),
        (GroupState::Open, Operator::default()),
    ] {
        let set = db.dlq().groups().set_state(group, state, &operator);
        assert!(set.unwrap());
    }
    let acts = db.audit(&AuditFilter::new());
    let verbs: Vec<&str> = acts.iter().map(|operator| &*operator.verb).collect();
    assert_eq!(verbs, ["reopen_group", "resolve_group"]);
    assert_eq!(acts[0].person.as_deref(), None);
    assert_eq!(acts[0].reason.as_deref(), None);
    let resolved = &acts[1];
    assert_eq!(resolved.person.as_deref(), Some("maria@ops"));
    assert_eq!(resolved.reason.as_deref(), Some("fixed\u{fffd} in 1.4"));
    assert_eq!((resolved.letters, resolved.filter.is_none()), (0, true));
    let about = resolved.about.as_ref().expect("the group").get();
    assert_eq!(about, format!("{{\"group\": {group}}}"));
    assert!(!resolved.role.is_empty());

    assert_eq!(db.audit(&AuditFilter::new().verb("resolve_group")).len(), 1);
    let last = db.audit(&AuditFilter::new().limit(1));
    assert_eq!(last[0].verb, "reopen_group");
    let page = db.audit(&AuditFilter::new().before(acts[0].id));
    assert_eq!(page[0].id, resolved.id);
    for (age, records) in [(HOUR, 2), (Duration::ZERO, 0)] {
        let since = AuditFilter::new().since(age);
        assert_eq!(db.audit(&since).len(), records, "{age:?}");
    }
}

#[test]
fn each_change_of_a_setting_is_audited_with_what_it_changed() {
    let (test, queue, _) = TestDatabase::with_letters(1);
    let (db, by) = (queue.database(), maria());
    let (dlq, admin) = (db.dlq(), db.admin());
    admin.open_breaker("gateway", None, &by).unwrap();
    assert!(admin.close_breaker("gateway", &by).unwrap());
    let protection = Protection::new("orders").approve_above(4);
    dlq.protect(&protection, &by).unwrap();
    assert!(dlq.unprotect("orders", &by).unwrap());
    let rule = RetentionRule::archive(LetterState::Recovered, DAY).queue("orders");
    dlq.retention().set(&rule, &by).unwrap();
    let removed = dlq.retention().remove(Some("orders"), rule.state, &by);
    assert!(removed.unwrap());
    let cards = Redaction::new().queue("orders").path("/card");
    let redaction = dlq.redactions().add(&cards, &by).unwrap();
    assert!(dlq.redactions().remove(redaction, &by).unwrap());
    let group = db.groups(&GroupFilter::new())[0].id;
    dlq.groups().split(group, "late", &by).unwrap();
    // What changes nothing is no record.
    assert!(!admin.close_breaker("gateway", &by).unwrap());
    assert!(!dlq.unprotect("orders", &by).unwrap());
    assert!(!dlq.redactions().remove(redaction, &by).unwrap());

    let acts = "SELECT concat_ws(' ', verb, filter, about - '{group,keep,redaction,rule}'::text[]) FROM redrive.audit \
                WHERE person = 'maria@ops-1' AND reason = 'INC-7' ORDER BY id";
    let acts: Vec<String> = test.client().column(acts, &[]);
    let expected = [
        r#"open_breaker {"breaker": "gateway", "duration": null}"#,
        r#"close_breaker {"breaker": "gateway"}"#,
        r#"protect_queue {"queue": "orders", "approve_above": 4}"#,
        r#"unprotect_queue {"queue": "orders"}"#,
        r#"set_retention {"queue": "orders", "state": "recovered"} {"action": "archive"}"#,
        r#"remove_retention {"queue": "orders", "state": "recovered"}"#,
        r#"add_redaction {"paths": ["/card"], "queue": "orders", "patterns": []}"#,
        r#"remove_redaction {"paths": ["/card"], "queue": "orders", "patterns": []}"#,
        r#"split_group {"pattern": "late"}"#,
    ];
    assert_eq!(acts, expected);
}

#[test]
fn audit_rows_cannot_be_changed_or_deleted() {
    let (test, mut client) = TestDatabase::with_client();
    client.sql("SELECT redrive.record_act('test', 'me', NULL, NULL, 0)");
    for statement in [
        "UPDATE redrive.audit SET reason = 'another'",
        "DELETE FROM redrive.audit",
        "TRUNCATE redrive.audit",
    ] {
        client.refuses(statement, &[], "redrive: the audit is append-only");
    }
    assert_eq!(test.open().audit(&AuditFilter::new()).len(), 1);
}

/// Inserts a record that is this many days old.
fn aged(client: &mut Client, verb: &str, days: i32) {
    let insert = "INSERT INTO redrive.audit (verb, at) VALUES ($1, now() - $2 * interval '1 day')";
    client.change(insert, &[&verb, &f64::from(days)]);
}

#[test]
fn old_audit_records_are_pruned_with_a_record() {
    let (test, mut client) = TestDatabase::with_client();
    for (verb, days) in [("old", 400), ("older", 500), ("young", 300)] {
        aged(&mut client, verb, days);
    }
    let prune = "prune --audit --older-than 365d";
    test.run(prune).shows("2 audit records, older than");
    let verbs = || -> Vec<String> {
        let records = test.open().audit(&AuditFilter::new());
        records.into_iter().map(|record| record.verb).collect()
    };
    assert_eq!(verbs().len(), 3);
    test.run(format!("{prune} --reason 'policy 9' --yes"))
        .prints("2 audit records pruned\n");
    assert_eq!(verbs(), ["prune_audit", "young"]);
    let record = &test.open().audit(&AuditFilter::new())[0];
    assert_eq!(record.reason.as_deref(), Some("policy 9"));
    has(record.about.as_ref().unwrap().get(), r#""records": 2"#);
    // The path is closed again.
    let deleted = client.execute("DELETE FROM redrive.audit", &[]);
    deleted.expect_err("append-only");
}

#[test]
fn recent_audit_records_cannot_be_pruned() {
    let test = TestDatabase::migrated();
    aged(&mut test.client(), "young", 29);
    for age in ["0s", "29d"] {
        test.fails(2, format!("prune --audit --older-than {age} --yes"))
            .tells("after 30 days");
    }
    test.fails(2, "prune --audit --yes");
    // It compares as 30 days, and ends in three weeks.
    let odd = "SELECT redrive.prune_audit('-120 months 3630 days')";
    assert_eq!(test.client().ask::<i64>(odd, &[]), 0);
    assert_eq!(test.open().audit(&AuditFilter::new()).len(), 1);
}
