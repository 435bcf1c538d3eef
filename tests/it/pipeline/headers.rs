//! Headers and group keys: set in SQL, kept through every step of a job and its letter.

use redrive_tests::prelude::*;

#[test]
fn a_capture_rejects_headers_over_their_limit() {
    let (test, db) = TestDatabase::opened();
    let failure = |position: &str| ForeignFailure::new("kafka", position, "orders", "order", b"{}");
    let headers = |position: &str, count: u32, last: usize| {
        let long = "x".repeat(8000);
        (0..count)
            .fold(failure(position), |failure, n| {
                failure.header(n.to_string(), long.as_str())
            })
            .header("n", "\"".repeat(last))
    };
    // A quotation mark takes two bytes in JSON, so 727 of them end one byte below the limit.
    db.dlq().capture(&headers("1", 8, 727)).unwrap();
    let printed: i32 = test.client().ask(
        "SELECT octet_length(headers::text) FROM redrive.dead_letters",
        &[],
    );
    assert_eq!(printed, 65_535);
    let error = db.dlq().capture(&headers("2", 8, 728)).expect_err("65,537");
    assert!(error.is_invalid(), "{error}");
    has(&error, "the limit is 65536");
}
