//! The command line in each role: a reader reads, and every other command names the role that it
//! needs, which suffices.

use std::process::ExitCode;

use redrive::Queue;
use redrive_tests::{Order, Ran, ran, ran_at};

use super::{Cast, Profession};
use crate::commands::{Stage, examples};

#[test]
fn every_command_names_the_role_that_it_needs_and_needs_no_other() {
    let cast = Cast::new();
    let mut stage = Stage::new(&cast.test);
    let mut troubles = Vec::new();
    for example in examples() {
        let arguments = stage.arguments(&example);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (role, line) = (&*example.role, &example.line);
        let needed = match role {
            "owner" => "only the owner of the schema may do this".to_owned(),
            role => format!("this command needs the role {role}, which the owner"),
        };
        let mut check = |ran: &Ran, may: bool, who: Profession| {
            let failed = ran.code == ExitCode::from(2);
            if failed == may || (failed && !ran.err.contains(&needed)) {
                troubles.push(format!("{line} as {who:?}: {}{}", ran.out, ran.err));
            }
        };
        let runs = match role {
            "owner" => None,
            "dry-run" => Some(Profession::Reader),
            role => Profession::ALL.into_iter().find(|who| who.name() == role),
        };
        for who in [Profession::Nobody, Profession::Reader, Profession::Operator] {
            let is_higher = who == Profession::Operator && role != "owner";
            if Some(who) != runs && !is_higher && role != "dry-run" {
                check(&ran_at(&cast.url(who), &arguments), false, who);
            }
        }
        let done = match runs {
            Some(who) => ran_at(&cast.url(who), &arguments),
            None => ran(&cast.test, &arguments),
        };
        check(&done, true, runs.unwrap_or(Profession::Nobody));
        stage.enqueued(&done.out);
    }
    assert!(troubles.is_empty(), "\n{}", troubles.join("\n"));
}

#[test]
fn an_error_of_the_library_has_the_statement_that_grants_what_is_missing() {
    let cast = Cast::new();
    let queue = Queue::new(&cast.open(Profession::Reader), "orders").unwrap();
    let error = queue.enqueue(&Order { number: 1 }).expect_err("a reader");
    let said = format!("{error:#}");
    for part in [
        "permission denied",
        "SELECT redrive.grant_role('ROLE', 'worker')",
    ] {
        assert!(said.contains(part), "{said}");
    }
}
