//! Settles jobs as a worker does.

use postgres::{Client, Row};
use uuid::Uuid;

use crate::statement;

/// A counter key, its label, its cause, its bucket, and the count.
pub type Count<'a> = (&'a str, Option<&'a str>, Option<&'a str>, Option<i16>, i64);

/// The verdicts about jobs of a lease, for `settle.sql`.
#[derive(Clone, Copy, Debug)]
pub struct Settlement<'a> {
    /// The queue of the worker.
    pub queue: &'a str,
    /// The lease of all of the jobs.
    pub lease: Uuid,
    /// Each job with its verdict and, if it dies, the cause.
    pub verdicts: &'a [(i64, &'a str, Option<&'a str>)],
    /// The delay of each retry in milliseconds.
    pub delay_ms: i64,
    /// The counter changes of the lease.
    pub counts: &'a [Count<'a>],
}

impl Settlement<'_> {
    /// Writes the verdicts and returns the rows of the statement.
    pub fn write(&self, client: &mut Client) -> Vec<Row> {
        let count = self.verdicts.len();
        let of_each = self.verdicts.iter();
        let jobs: Vec<i64> = of_each.clone().map(|verdict| verdict.0).collect();
        let words: Vec<&str> = of_each.clone().map(|verdict| verdict.1).collect();
        let causes: Vec<Option<&str>> = of_each.map(|verdict| verdict.2).collect();
        let is_outage: Vec<bool> = words.iter().map(|word| *word == "outage").collect();
        // The run time of an attempt that failed.
        let run_ms = words
            .iter()
            .map(|word| matches!(*word, "retry" | "outage" | "dead").then_some(5_i64));
        let counts = self.counts;
        client
            .query(
                statement("settle"),
                &[
                    &vec![self.lease; count],
                    &jobs,
                    &words,
                    &vec![self.delay_ms; count],
                    &causes,
                    &vec!["Broken"; count],
                    &vec!["broken"; count],
                    &vec![None::<&str>; count],
                    &run_ms.collect::<Vec<_>>(),
                    &Uuid::nil(),
                    &"host",
                    &"1",
                    &false,
                    &is_outage,
                    &1_i32,
                    &self.queue,
                    &vec![0_i16; count],
                    &vec![self.lease; counts.len()],
                    &counts.iter().map(|count| count.0).collect::<Vec<_>>(),
                    &counts.iter().map(|count| count.1).collect::<Vec<_>>(),
                    &counts.iter().map(|count| count.2).collect::<Vec<_>>(),
                    &counts.iter().map(|count| count.3).collect::<Vec<_>>(),
                    &counts.iter().map(|count| count.4).collect::<Vec<_>>(),
                    &vec![0.0_f64; counts.len()],
                    &vec![None::<&str>; count],
                    &10_i32,
                ],
            )
            .expect("settle jobs")
    }
}
