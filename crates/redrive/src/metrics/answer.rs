//! Runs a metrics query with a timeout and reads its rows.

use std::time::Duration;

use postgres::{Client, Row};

use crate::db::sql::Sql;
use crate::error::{Error, Result};
use crate::metrics::MetricKind;
use crate::metrics::series::{Key, Numbers};

const LOCK_TIMEOUT: Duration = Duration::from_millis(250);

/// Runs a query in a transaction with a statement timeout of `time`.
///
/// Without `row_security`, a query that would miss rows fails. All settings are local to the
/// transaction, so this also works behind a transaction-mode pooler.
pub(crate) fn query(
    client: &mut Client,
    doing: &str,
    sql: &Sql,
    time: Duration,
) -> Result<Vec<Row>> {
    // The server takes 32 bits.
    let time = time.as_millis().clamp(1, i32::MAX.unsigned_abs().into());
    let lock_timeout = LOCK_TIMEOUT.as_millis().min(time);
    let begin = format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED; \
         SET LOCAL statement_timeout = {time}; SET LOCAL lock_timeout = {lock_timeout}; \
         SET LOCAL idle_in_transaction_session_timeout = '10s'; SET LOCAL jit = off; \
         SET LOCAL row_security = off; SET LOCAL application_name = 'redrive-metrics'"
    );
    let mut run = || {
        client.batch_execute(&begin)?;
        let rows = client.query_typed(sql.text, &[])?;
        client.batch_execute("COMMIT").map(|()| rows)
    };
    run().map_err(|error| {
        // The first error is the cause; the rollback fails too if the connection is lost.
        _ = client.batch_execute("ROLLBACK");
        Error::from_postgres(doing, error)
    })
}

/// Reads a series and its value from a row.
///
/// Returns `None` if the catalogue does not define the series: a newer schema may publish metrics
/// that this version does not know.
pub(crate) fn series(doing: &str, row: &Row) -> Result<Option<(Key, Numbers)>> {
    read(row).map_err(|error| Error::from_postgres(doing, error))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "Prometheus has no other numbers"
)]
fn read(row: &Row) -> Result<Option<(Key, Numbers)>, postgres::Error> {
    let Some(key) = Key::new(row.try_get("metric")?, row.try_get("labels")?) else {
        return Ok(None);
    };
    let value = match key.metric().kind {
        MetricKind::Counter | MetricKind::Gauge => {
            let number: Option<f64> = row.try_get("value")?;
            number.map(|number| vec![number])
        }
        MetricKind::Histogram(bounds) => {
            let counts: Option<Vec<i64>> = row.try_get("counts")?;
            // Another version of the schema may use different bounds.
            let counts = counts.filter(|counts| counts.len() == bounds.len() + 1);
            let numbers = |(counts, sum): (Vec<i64>, f64)| {
                let counts = counts.into_iter().map(|count| count as f64);
                counts.chain([sum]).collect()
            };
            counts.zip(row.try_get("sum")?).map(numbers)
        }
    };
    Ok(value.map(|value| (key, value)))
}
