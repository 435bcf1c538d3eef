//! The command line in each role: a reader reads, and every other command says how its role gets what it
//! needs; the role of its example suffices. No command prints the password, and each prints the names of its example.

use redrive_tests::prelude::*;

use super::{Cast, Profession};
use crate::cli::json::Printed;
use crate::commands::{Stage, examples};
use crate::guarantees::secrets::password::{PASSWORD, with_password};

/// How a role gets what it lacks, and what it cannot get.
const GRANT: &str =
    "SELECT redrive.grant_role('ROLE', 'PROFESSION'); only the owner migrates and protects queues";

#[test]
fn every_command_works_in_its_role_and_says_how_another_gets_it() {
    let cast = Cast::new();
    let mut stage = Stage::new(&cast.test);
    let mut troubles = Vec::new();
    let mut printed = Printed::default();
    for example in examples() {
        let arguments = stage.arguments(&example);
        let role = &*example.role;
        let runs = match role {
            "owner" => None,
            "dry-run" => Some(Profession::Reader),
            role => Profession::ALL.into_iter().find(|who| who.name() == role),
        };
        let mut run = |who: Option<Profession>| {
            let url = who.map_or_else(|| with_password(cast.test.url()), |who| cast.url(who));
            let ran = ran_at(&url, &arguments);
            let failed = ran.code == ExitCode::from(2);
            let may = who == runs;
            let tells = [&ran.out, &ran.err].map(|text| text.contains(PASSWORD));
            if failed == may || (failed && !ran.err.contains(GRANT)) || tells.contains(&true) {
                let line = &example.line;
                troubles.push(format!("{line} as {who:?}: {}{}", ran.out, ran.err));
            }
            ran
        };
        for who in [Profession::Nobody, Profession::Reader, Profession::Operator] {
            let is_higher = who == Profession::Operator && role != "owner";
            if Some(who) != runs && !is_higher && role != "dry-run" {
                run(Some(who));
            }
        }
        let done = run(runs);
        stage.enqueued(&done.out);
        printed.note(example, &done);
    }
    assert!(troubles.is_empty(), "\n{}", troubles.join("\n"));
    printed.check();
}

#[test]
fn an_error_of_the_library_has_the_statement_that_grants_what_is_missing() {
    let cast = Cast::new();
    let queue = Queue::new(&cast.open(Profession::Reader), "orders").unwrap();
    let error = queue.enqueue(&Order { number: 1 }).expect_err("a reader");
    let said = format!("{error:#}");
    has(&said, "permission denied");
    has(&said, GRANT);
}
