//! Encodings: a database that is not UTF-8 is refused, and nothing is created in it.

use redrive_tests::prelude::*;

#[test]
fn a_database_with_another_encoding_is_refused_and_unchanged() {
    for encoding in ["LATIN1", "SQL_ASCII"] {
        let test = TestDatabase::with_encoding(encoding);
        let error = test.open().migrate().expect_err("not UTF-8");
        let said = format!("{error:?}");
        let expected = format!("has the encoding {encoding}; redrive needs UTF8");
        has(&said, &expected);

        let script = test
            .client()
            .batch_execute(&redrive::migrate::print())
            .expect_err("not UTF-8");
        has(refusal(&script), &expected);

        let command = Command::new(env!("CARGO_BIN_EXE_test_cli"))
            .env("DATABASE_URL", test.url())
            .args(["--no-wait", "migrate"])
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&command.stderr);
        assert!(!command.status.success());
        has(&said, &expected);

        let created = "SELECT FROM pg_namespace WHERE nspname = 'redrive'";
        assert!(test.client().query_opt(created, &[]).unwrap().is_none());
    }
}
