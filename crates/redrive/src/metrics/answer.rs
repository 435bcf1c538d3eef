//! Answers: one question to the database, in one round trip, within its time, and the series in it.

use std::time::Duration;

use postgres::{Client, SimpleQueryMessage, SimpleQueryRow};

use crate::error::{Error, Result};
use crate::metrics::series::Key;
use crate::metrics::{MetricKind, Value};
use crate::sql::Sql;

/// How long a metric waits for somebody's lock.
const LOCK_TIMEOUT: Duration = Duration::from_millis(250);

/// Asks in a transaction of its own that can write nothing, and ends it when the time is over. One
/// round trip: settings, question and end go together, and nothing of it stays on the connection, so
/// a pooler may stand in between, in whatever mode.
pub(crate) fn ask(
    client: &mut Client,
    doing: &str,
    sql: &Sql,
    time: Duration,
) -> Result<Vec<SimpleQueryRow>> {
    let failed = |error| Error::from_postgres(doing, error);
    let time = time.as_millis().max(1);
    let lock_timeout = LOCK_TIMEOUT.as_millis().min(time);
    let question = format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED READ ONLY; \
         SET LOCAL statement_timeout = {time}; SET LOCAL lock_timeout = {lock_timeout}; \
         SET LOCAL idle_in_transaction_session_timeout = '10s'; SET LOCAL jit = off; \
         SET LOCAL application_name = 'redrive-metrics'; \
         {}\n; COMMIT",
        sql.text
    );
    match client.simple_query(&question) {
        Ok(answer) => Ok(answer
            .into_iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => Some(row),
                SimpleQueryMessage::CommandComplete(_)
                | SimpleQueryMessage::RowDescription(_)
                | _ => None,
            })
            .collect()),
        Err(error) => {
            // Its own answer says nothing more: without a connection there is none.
            _ = client.simple_query("ROLLBACK");
            Err(failed(error))
        }
    }
}

/// The series that a row of a source tells. None when it is not in the catalogue: a newer schema may
/// know more than this library.
pub(crate) fn series(doing: &str, row: &SimpleQueryRow) -> Result<Option<(Key, Value)>> {
    let text = |column: &str| row.try_get(column).ok().flatten();
    let unreadable = |what: &str| {
        Error::unavailable(format!(
            "could not {doing}: its {what} of `{}` cannot be read",
            text("metric").unwrap_or_default()
        ))
    };
    let labels = text("labels").unwrap_or("[]");
    let labels =
        serde_json::from_str(labels).map_err(|error| unreadable("labels").caused_by(error))?;
    let Some(key) = Key::new(text("metric").unwrap_or_default(), labels) else {
        return Ok(None);
    };
    let number = |column: &str| {
        text(column)
            .map(str::parse::<f64>)
            .transpose()
            .map_err(|error| unreadable(column).caused_by(error))
    };
    let value = match key.metric().kind {
        MetricKind::Counter | MetricKind::Gauge => number("value")?.map(Value::Number),
        MetricKind::Histogram(bounds) => {
            let counts = text("counts")
                .map(serde_json::from_str::<Vec<u64>>)
                .transpose();
            let counts = counts.map_err(|error| unreadable("counts").caused_by(error))?;
            // Other bounds are another version's.
            counts
                .filter(|counts| counts.len() == bounds.len() + 1)
                .zip(number("sum")?)
                .map(|(counts, sum)| Value::Buckets { counts, sum })
        }
    };
    Ok(value.map(|value| (key, value)))
}
