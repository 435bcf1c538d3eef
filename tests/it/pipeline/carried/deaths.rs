//! A death replaces what an earlier one left in the letter of the job.

use redrive_tests::TestDatabase;

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
