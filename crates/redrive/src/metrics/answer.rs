//! Runs a metrics query with a timeout and parses its rows.

use std::time::Duration;

use postgres::{Client, SimpleQueryMessage, SimpleQueryRow};

use crate::error::{Error, Result};
use crate::metrics::MetricKind;
use crate::metrics::series::{Key, Numbers};

const LOCK_TIMEOUT: Duration = Duration::from_millis(250);

/// What the transaction of a query may do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Access {
    ReadOnly,
    ReadWrite,
}

/// Runs a query in a transaction with a statement timeout of `time`.
///
/// The settings, the query and the commit go in one round trip. Without `row_security`, a query that
/// would miss rows fails. All settings are local to the
/// transaction, so this also works behind a transaction-mode pooler.
pub(crate) fn query(
    client: &mut Client,
    doing: &str,
    sql: &str,
    access: Access,
    time: Duration,
) -> Result<Vec<SimpleQueryRow>> {
    let failed = |error| Error::from_postgres(doing, error);
    // The server takes 32 bits.
    let time = time.as_millis().clamp(1, i32::MAX.unsigned_abs().into());
    let access = match access {
        Access::ReadOnly => "READ ONLY",
        Access::ReadWrite => "READ WRITE",
    };
    let lock_timeout = LOCK_TIMEOUT.as_millis().min(time);
    let script = format!(
        "BEGIN ISOLATION LEVEL READ COMMITTED {access}; \
         SET LOCAL statement_timeout = {time}; SET LOCAL lock_timeout = {lock_timeout}; \
         SET LOCAL idle_in_transaction_session_timeout = '10s'; SET LOCAL jit = off; \
         SET LOCAL row_security = off; SET LOCAL extra_float_digits = 1; \
         SET LOCAL application_name = 'redrive-metrics'; \
         {sql}\n; COMMIT"
    );
    match client.simple_query(&script) {
        Ok(messages) => Ok(messages
            .into_iter()
            .filter_map(|message| match message {
                SimpleQueryMessage::Row(row) => Some(row),
                SimpleQueryMessage::CommandComplete(_)
                | SimpleQueryMessage::RowDescription(_)
                | _ => None,
            })
            .collect()),
        Err(error) => {
            // The first error is the cause; the rollback fails too if the connection is lost.
            _ = client.simple_query("ROLLBACK");
            Err(failed(error))
        }
    }
}

/// Parses a row into a series and its value.
///
/// Returns `None` if the catalogue does not define the series: a newer schema may publish metrics
/// that this version does not know.
pub(crate) fn series(doing: &str, row: &SimpleQueryRow) -> Result<Option<(Key, Numbers)>> {
    let text = |column: &str| row.try_get(column).ok().flatten();
    let invalid = |what: &str| {
        Error::unavailable(format!(
            "could not {doing}: invalid {what} for metric `{}`",
            text("metric").unwrap_or_default()
        ))
    };
    let labels = text("names").unwrap_or("[]");
    let labels =
        serde_json::from_str(labels).map_err(|error| invalid("labels").caused_by(error))?;
    let Some(key) = Key::new(text("metric").unwrap_or_default(), labels) else {
        return Ok(None);
    };
    let number = |column: &str| {
        text(column)
            .map(str::parse::<f64>)
            .transpose()
            .map_err(|error| invalid(column).caused_by(error))
    };
    let value = match key.metric().kind {
        MetricKind::Counter | MetricKind::Gauge => number("value")?.map(|number| vec![number]),
        MetricKind::Histogram(bounds) => {
            let numbers = |counts: &str| {
                let counts = counts.trim_matches(['{', '}']).split(',');
                counts.map(str::parse).collect::<Result<Numbers, _>>()
            };
            let counts = text("counts").map(numbers).transpose();
            let counts = counts.map_err(|error| invalid("counts").caused_by(error))?;
            // Another version of the schema may use different bounds.
            counts
                .filter(|counts| counts.len() == bounds.len() + 1)
                .zip(number("sum")?)
                .map(|(counts, sum)| [counts, vec![sum]].concat())
        }
    };
    Ok(value.map(|value| (key, value)))
}
