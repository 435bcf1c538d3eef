//! The values that pointers and wildcards redact.

use redrive_tests::prelude::*;

/// Lets a job with this payload die under a rule. Returns what the letter kept, and its mark.
fn kept(rule: &Redaction, payload: &Value) -> (Value, Vec<String>) {
    let test = TestDatabase::migrated();
    let (queue, db) = (test.queue("orders"), test.open());
    let operator = Operator::default();
    let id = db.dlq().redactions().add(rule, &operator).unwrap();
    let listed = db.dlq().redactions().list().unwrap();
    assert_eq!(listed, [(id, rule.clone())]);
    let job = NewJob::raw("charge", &payload.to_string()).unwrap();
    let id = put(&queue, job);
    db.cancels(id);
    let letter = db.letter(id);
    let payload = letter.payload.expect("JSON");
    let payload = serde_json::from_str(payload.get()).unwrap();
    (payload, letter.redacted)
}

/// A rule with these paths.
fn rule(paths: &str) -> Redaction {
    paths.split(' ').fold(Redaction::new(), Redaction::path)
}

#[test]
fn pointers_and_wildcards_find_their_values() {
    let gone = "[redacted]";
    for (marks, in_vain, payload, expected) in [
        (
            "/a/b /list/1 /x~1y /m~0n / /null",
            "/none/at/all",
            json!({
                "a": {"b": {"c": 1}}, "list": [1, 2, 3], "x/y": 1, "m~n": 1, "": 1, "null": null, "none": "kept",
            }),
            json!({
                "a": {"b": gone}, "list": [1, gone, 3], "x/y": gone, "m~n": gone, "": gone, "null": gone, "none": "kept",
            }),
        ),
        (
            "/items/*/card /notes/* /by_day/*/*/secret",
            "/none/*/x /text/*",
            json!({
                "items": [{"card": "1", "id": 1}, {"id": 2}, {"card": 3, "id": 3}, "text"],
                "notes": {"a": "x", "b": null},
                "by_day": {"mon": [{"secret": 1}], "tue": [{"secret": 2}, {"other": 3}]},
                "text": "kept",
            }),
            json!({
                "items": [{"card": gone, "id": 1}, {"id": 2}, {"card": gone, "id": 3}, "text"],
                "notes": {"a": gone, "b": gone},
                "by_day": {"mon": [{"secret": gone}], "tue": [{"secret": gone}, {"other": 3}]},
                "text": "kept",
            }),
        ),
    ] {
        let (kept, found) = kept(&rule(&format!("{marks} {in_vain}")), &payload);
        assert_eq!((kept, found.join(" ")), (expected, marks.to_owned()));
    }
}
