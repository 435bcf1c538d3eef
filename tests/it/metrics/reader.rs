//! The reader of the metrics.

mod backlog;
mod faults;
mod schema;
mod series;

use redrive::metrics::{Reading, Source};
use redrive_tests::prelude::*;

/// Totals written by the test.
const OWN_TOTALS: &str = "
    CREATE TABLE own_totals (metric text, labels text[], numbers float8[]);
    CREATE OR REPLACE FUNCTION redrive.metric_totals()
        RETURNS TABLE (metric text, labels text[], numbers double precision[])
        LANGUAGE sql STABLE AS 'SELECT * FROM public.own_totals'";

const ENQUEUED: &str = "redrive_jobs_enqueued_total";

fn with_own_totals(test: &TestDatabase) -> Client {
    let mut client = test.client();
    client.sql(OWN_TOTALS);
    client
}

#[track_caller]
fn success(reading: &Reading, source: Source) -> bool {
    let labels = [source.as_str()];
    number(&reading.samples, "redrive_collector_success", &labels).unwrap() > 0.0
}
