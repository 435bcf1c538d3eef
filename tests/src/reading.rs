//! What a statement reads, by EXPLAIN.

use postgres::Client;
use serde_json::Value;

/// How often a statement is executed.
const EXECUTIONS: usize = 5;

/// An execution of a statement.
#[derive(Debug)]
pub struct Reading {
    /// The pages that it touched.
    pub pages: i64,
    /// The top node of its plan.
    pub plan: Value,
}

/// Executes a statement several times, each time rolled back, and returns the execution that touched
/// the fewest pages. The first one also reads the catalog, and so does a later one after another
/// session invalidated a part of it: noise only ever adds pages.
pub fn fewest_pages(client: &mut Client, execute: &str) -> Reading {
    let explain = format!("EXPLAIN (ANALYZE, BUFFERS, TIMING OFF, FORMAT JSON) {execute}");
    let reading = |_| {
        let mut transaction = client.transaction().expect("begin");
        let row = transaction.query_one(&explain, &[]);
        let mut plan: Value = row.expect("execute the statement").get(0);
        transaction.rollback().expect("roll back");
        let plan = plan[0]["Plan"].take();
        let pages = ["Shared Hit Blocks", "Shared Read Blocks"].map(|kind| plan[kind].as_i64());
        Reading {
            pages: pages.into_iter().flatten().sum(),
            plan,
        }
    };
    let readings = (0..EXECUTIONS).map(reading);
    readings
        .min_by_key(|reading| reading.pages)
        .expect("it was executed")
}
