//! A death replaces what an earlier one left in the letter of the job.

use redrive_tests::{TestDatabase, statement};

use super::{JOB, Life};

#[test]
fn a_cancel_carries_every_field_of_a_job_that_lost_workers() {
    let test = TestDatabase::migrated();
    let mut job = Life::begin(&test);
    // Only a handler leaves a run time and a detail.
    job.claim();
    job.settle("dead", 0);
    job.redrive();
    job.sql("UPDATE redrive.dead_letters SET error_detail = NULL, detail_id = 99");
    job.claim();
    job.reap(3);
    job.run("cancel", &[&JOB]);
    job.is("open letter: manual attempt=0 crashes=1 generation=4 priority=7 history=4");
    job.redrive();
    job.claim();
    job.reap(3);
    job.claim();
    job.reap(3);
    job.run("cancel", &[&JOB]);
    job.is("open letter: manual attempt=0 crashes=2 generation=5 priority=7 history=6");
}

/// Returns the assignments of a statement to the letter that an earlier death left.
fn replaced(text: &str) -> String {
    let end = "changed_at = excluded.changed_at";
    let (_, rest) = text
        .split_once("ON CONFLICT (id) DO UPDATE")
        .expect("it writes letters");
    let (assignments, _) = rest.split_once(end).expect("it sets the time");
    let words: Vec<&str> = assignments.split_whitespace().collect();
    words.join(" ")
}

#[test]
fn every_death_replaces_the_same_columns_of_a_letter() {
    let settle = replaced(statement("settle"));
    for name in ["release", "reap", "cancel"] {
        assert_eq!(replaced(statement(name)), settle, "{name}");
    }
    let bulk = "SELECT prosrc FROM pg_proc WHERE oid = 'redrive.bury_waiting'::regproc";
    let row = TestDatabase::migrated().client().query_one(bulk, &[]);
    assert_eq!(replaced(row.unwrap().get(0)), settle, "bury_waiting");
}
