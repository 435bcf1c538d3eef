//! The series that a reader publishes.

use redrive::metrics::Reader;
use redrive_tests::prelude::*;

use super::{ENQUEUED, with_own_totals};

fn count(client: &mut Client, queue: &str, value: f64) {
    let counted = "WITH gone AS (DELETE FROM own_totals WHERE labels = ARRAY[$1::text]) \
                   INSERT INTO own_totals VALUES ('redrive_jobs_enqueued_total', ARRAY[$1::text], ARRAY[$2::float8])";
    client.change(counted, &[&queue, &value]);
}

#[test]
fn counters_continue_in_a_restored_database() {
    let (test, restored) = (TestDatabase::migrated(), TestDatabase::migrated());
    let mut reader = Reader::new("1");
    let mut client = with_own_totals(&test);
    count(&mut client, "orders", 50.0);
    read(&mut reader, &mut client);
    // A dump fills the table of migrations after those of the counters.
    let mut client = with_own_totals(&restored);
    client.sql("CREATE TABLE dumped AS TABLE redrive.migrations; DELETE FROM redrive.migrations");
    let reading = read(&mut reader, &mut client);
    says(&reading, "down{schema}", 1.0);
    says(&reading, "totals_regressions_total", 0.0);
    count(&mut client, "orders", 47.0);
    client.sql("INSERT INTO redrive.migrations TABLE dumped");
    let reading = read(&mut reader, &mut client);
    reads(&reading, ENQUEUED, &["orders"], 50.0);
    says(&reading, "totals_regressions_total", 1.0);
    count(&mut client, "orders", 49.0);
    reads(&read(&mut reader, &mut client), ENQUEUED, &["orders"], 52.0);
}
