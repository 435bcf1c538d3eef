//! Tables fit into a narrow window, however long the names are.

use std::process::Command;

use redrive_tests::{Sql, TestDatabase, ran};

/// The width of the window.
const COLUMNS: usize = 60;

/// Commands that print nothing but a table.
const LISTS: &[&str] = &[
    "job list",
    "dlq list",
    "dlq groups",
    "dlq groups rules list",
    "dlq archive list",
    "dlq protection list",
    "dlq runs list",
];

/// Stores jobs, letters, an archived letter, a rule, a run and a protection with long names.
fn furnish(test: &TestDatabase) {
    let name = "orders.of.the.northern.warehouse.for.every.customer.and.every.partner.abroad";
    let mut client = test.client();
    let job = "INSERT INTO redrive.jobs (segment, id, queue, kind, payload, meta.unique_key)
               VALUES (0, 100, $1::text, $1::text, '{}', $1::text)";
    client.change(job, &[&name]);
    let letter = "INSERT INTO redrive.dead_letters
            (queue, kind, cause, error_class, error_message, payload, enqueued_at)
         VALUES ($1::text, $1::text, 'rejected', $1::text, repeat('no answer ', 20), '{}', now())";
    client.change(letter, &[&name]);
    let archived = "INSERT INTO redrive.archived_letters (id, queue, letter)
         SELECT l.id + 1000, l.queue, redrive.archive_json(l, NULL, NULL) || '{\"id\": 1001}'
         FROM redrive.dead_letters l";
    client.change(archived, &[]);
    let rule = "INSERT INTO redrive.group_rules (group_id, action, pattern, person)
                VALUES (1, 'payload', $1::text, $1::text)";
    client.change(rule, &[&name]);
    let protection = "INSERT INTO redrive.protections (queue, approve_above, roles)
                      VALUES ('other', 1000000, ARRAY[$1::text, $1::text])";
    client.change(protection, &[&name]);
    let run = ["dlq", "redrive", name, "--detach", "--yes"];
    ran(test, &run).exits_with(0);
}

#[test]
fn every_list_fits_into_a_narrow_window() {
    let test = TestDatabase::migrated();
    furnish(&test);
    let mut troubles = Vec::new();
    for list in LISTS {
        let shown = Command::new(env!("CARGO_BIN_EXE_test_cli"))
            .args(list.split(' '))
            .env("DATABASE_URL", test.url())
            .env("COLUMNS", COLUMNS.to_string())
            .env("LC_ALL", "C.UTF-8")
            .output()
            .expect("the program");
        let out = String::from_utf8(shown.stdout).expect("UTF-8");
        if out.lines().count() < 2 {
            let err = String::from_utf8_lossy(&shown.stderr);
            troubles.push(format!("{list}: no table: {out}{err}"));
        }
        let is_wide = |line: &&str| line.chars().count() > COLUMNS;
        troubles.extend(
            out.lines()
                .filter(is_wide)
                .map(|line| format!("{list}: {line}")),
        );
    }
    assert!(troubles.is_empty(), "\n{}", troubles.join("\n"));
}
