//! The commands on redactions.

use redrive_tests::TestDatabase;

#[test]
fn redactions_can_be_added_listed_and_removed_on_the_command_line() {
    let test = TestDatabase::migrated();
    let run = |code: u8, arguments: &[&str]| -> String {
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let program = [
            "redrive",
            "--database-url",
            test.url(),
            "--no-wait",
            "redact",
        ];
        let arguments = program
            .iter()
            .chain(arguments)
            .map(std::ffi::OsString::from);
        let ended = redrive_cli::run(arguments, &mut out, &mut err);
        let err = String::from_utf8(err).unwrap();
        assert_eq!(ended, std::process::ExitCode::from(code), "{err}");
        String::from_utf8(out).unwrap()
    };
    run(1, &["list"]);
    run(2, &["add"]);
    run(2, &["add", "--path", "card"]);
    run(2, &["add", "--pattern", "("]);
    let id = run(
        0,
        &[
            "add",
            "--queue",
            "orders",
            "--path",
            "/card",
            "--pattern",
            "\\d{13,19}",
        ],
    );
    let listed = run(0, &["list"]);
    for word in ["orders", "(every)", "/card", "\\d{13,19}"] {
        assert!(listed.contains(word), "{listed}");
    }
    run(0, &["remove", id.trim()]);
    run(1, &["remove", id.trim()]);
}
