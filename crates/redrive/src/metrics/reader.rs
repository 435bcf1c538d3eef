//! Reads every metric of the catalogue from the database, source by source.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use postgres::{Client, Row};

use crate::db::database::Database;
use crate::db::migrate::{self, SchemaVersion};
use crate::db::row::column;
use crate::db::sql::{self, Sql};
use crate::error::{Error, Result};
use crate::job::wait::MAX_WAIT;
use crate::metrics::guard::Guard;
use crate::metrics::metric::Distrust;
use crate::metrics::names::fold;
use crate::metrics::series::{Key, Numbers, gauge, zero};
use crate::metrics::source_state::{self, SourceState};
use crate::metrics::zero::fill;
use crate::metrics::{Sample, Source};

const LOCK_TIMEOUT: Duration = Duration::from_millis(250);

/// Reads the metrics and keeps the last good value of each for 5 minutes.
///
/// The role of the connection needs access to the metrics (`SELECT redrive.grant_role('…', 'exporter')`).
/// Without the rights of `pg_monitor`, it cannot read the metrics of the server.
///
/// Cloning a reader copies all last good values. Keep a clone if you may have to abandon a call
/// that blocks.
///
/// ```
/// use std::time::Duration;
/// use redrive::metrics::Reader;
/// use redrive::postgres::{Client, NoTls};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut client = Client::connect(&std::env::var("DATABASE_URL")?, NoTls)?;
/// let mut reader = Reader::new(env!("CARGO_PKG_VERSION"));
/// let reading = reader.read(&mut client, Duration::from_secs(5));
/// assert!(reading.samples.iter().any(|sample| sample.metric.name == "redrive_up"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Reader {
    version: String,
    sources: BTreeMap<Source, SourceState>,
    guard: Guard,
    schema: SchemaVersion,
    /// The errors of the last reading, which were logged.
    logged: Vec<String>,
}

/// The result of a reading.
#[derive(Debug)]
#[non_exhaustive]
pub struct Reading {
    /// The metrics, in the order of the catalogue. Metrics that were not read this time have
    /// their last good values. Those of a source that was last read 5 minutes ago are missing.
    pub samples: Vec<Sample>,
    /// True if the connection is still usable.
    pub is_connected: bool,
    /// The sources that could not be read, with the error. `None` means the whole database.
    pub failures: Vec<(Option<Source>, Error)>,
    /// True if the database answered and this library supports its schema version.
    pub is_ready: bool,
}

impl Reader {
    /// Returns a reader without values.
    ///
    /// `version` is published as the label of `redrive_exporter_build_info`.
    pub fn new(version: &str) -> Reader {
        let sources = Source::DATABASE.map(|source| (source, SourceState::default()));
        Reader {
            version: version.to_owned(),
            sources: sources.into(),
            guard: Guard::default(),
            schema: SchemaVersion::default(),
            logged: Vec::new(),
        }
    }

    /// Reads every source, within `budget`.
    ///
    /// This method does not return an error: if a source cannot be read, its last good values stay
    /// published for 5 minutes and its `redrive_collector_success` is 0.
    ///
    /// Statement timeouts enforce the budget; each source gets at most half of the remaining time.
    /// They cannot help if the server stops responding while the connection stays open. This call
    /// then blocks, so run it on a thread that you can abandon, or call [`read_within`](Reader::read_within).
    pub fn read(&mut self, client: &mut Client, budget: Duration) -> Reading {
        let deadline = Instant::now() + budget.min(MAX_WAIT);
        let (mut failures, mut distrust) = (Vec::new(), None);
        match self.identify(client, deadline) {
            Ok(Some(now)) => {
                fold_backlog(client, remaining(deadline) / 4);
                self.read_sources(client, now, deadline, &mut failures);
            }
            Ok(None) => distrust = Some(Distrust::Schema),
            Err(error) => {
                distrust = Some(Distrust::of(&error));
                failures.push((None, error));
            }
        }
        let is_connected = !client.is_closed();
        if !is_connected {
            distrust = Some(Distrust::Unreachable);
        }
        Reading {
            is_connected,
            ..self.publish(distrust, failures, Instant::now())
        }
    }

    /// Reads as [`read`](Reader::read) does, on a connection of the pool, and returns within `deadline` even if the
    /// server is silent. The wait for the connection is part of the budget.
    ///
    /// Returns the reader with the new values. This one keeps its own, because the call may be abandoned.
    pub fn read_within(
        &self,
        database: &Database,
        budget: Duration,
        deadline: Duration,
    ) -> (Reader, Reading) {
        let (mut reader, begin) = (self.clone(), Instant::now());
        let read = database.call_within("read the metrics", deadline, move |session| {
            let left = budget.saturating_sub(begin.elapsed());
            let reading = reader.read(session.client(), left);
            Ok((reader, reading))
        });
        read.unwrap_or_else(|error| {
            let mut reader = self.clone();
            let why = Some(Distrust::Unreachable);
            let reading = reader.publish(why, vec![(None, error)], Instant::now());
            (reader, reading)
        })
    }

    /// Logs each error as a warning, and its repetitions at the debug level.
    fn log(&mut self, failures: &[(Option<Source>, Error)]) {
        let texts = failures.iter().map(|(_, error)| format!("{error:#}"));
        let texts: Vec<String> = texts.collect();
        for text in &texts {
            match self.logged.contains(text) {
                true => log::debug!("{text}"),
                false => log::warn!("{text}"),
            }
        }
        self.logged = texts;
    }

    /// Returns the last good values with `redrive_up` 0, and after 5 minutes only the metrics of
    /// the reader. Use it if you cannot connect.
    pub fn unreachable(&mut self) -> Reading {
        self.publish(Some(Distrust::Unreachable), Vec::new(), Instant::now())
    }

    /// Reads the version of the schema and the time of the database. `None`: it has no migrations. A restore
    /// fills those after the counters, which are not those to continue from until then.
    fn identify(&mut self, client: &mut Client, deadline: Instant) -> Result<Option<f64>> {
        let doing = "read the schema's version";
        let rows = query(client, doing, &sql::SCHEMA_VERSION, remaining(deadline))?;
        self.schema = migrate::schema_version(&rows)?;
        let applied = rows.first().filter(|_| self.schema.version > 0);
        applied.map(|row| column(row, "now")).transpose()
    }

    fn read_sources(
        &mut self,
        client: &mut Client,
        now: f64,
        deadline: Instant,
        failures: &mut Vec<(Option<Source>, Error)>,
    ) {
        for (source, statement) in [
            (Source::Totals, &sql::METRIC_TOTALS),
            (Source::Queues, &sql::METRICS_QUEUES),
            (Source::Letters, &sql::METRICS_LETTERS),
            (Source::Operations, &sql::METRICS_OPERATIONS),
            (Source::Server, &sql::METRICS_SERVER),
            (Source::Tables, &sql::METRICS_TABLES),
        ] {
            let start = Instant::now();
            let state = self.sources.entry(source).or_default();
            match read_source(client, source, statement, remaining(deadline) / 2) {
                Ok(series) => {
                    state.series = series;
                    state.good = Some((start, now));
                    state.failure = None;
                }
                Err(error) => {
                    state.failure = Some(Distrust::of(&error));
                    failures.push((Some(source), error));
                }
            }
            state.duration = start.elapsed();
        }
    }

    /// Builds a reading from the last good values of all sources that are current, and logs the failures.
    ///
    /// `failure` is why the database was not read.
    fn publish(
        &mut self,
        failure: Option<Distrust>,
        failures: Vec<(Option<Source>, Error)>,
        now: Instant,
    ) -> Reading {
        self.log(&failures);
        if let Some(why) = failure {
            for state in self.sources.values_mut() {
                state.failure = Some(why);
            }
        }
        if failure == Some(Distrust::Schema) {
            self.schema = SchemaVersion::default();
        }
        let distrust = failure.or_else(|| source_state::distrust(&self.sources, now));
        let sources = self.sources.iter();
        let current = sources.filter(|(_, state)| state.is_current(now));
        let answered: BTreeSet<Source> = current.clone().map(|(source, _)| *source).collect();
        let values = current.flat_map(|(_, state)| state.series.iter().cloned());
        let (mut series, has_folded) = fold(values.collect());
        fill(&mut series, &answered);
        // Other sources may have more queues than the totals.
        if answered.contains(&Source::Totals) && has_folded {
            series.extend(gauge("redrive_series_folded", &["queue"], 1.0));
        }
        self.guard.apply(&mut series, &answered, now);
        series.extend(self.reader_metrics(distrust));
        let sample = |(key, numbers): (Key, Numbers)| Sample {
            metric: key.metric(),
            labels: key.labels,
            numbers,
        };
        Reading {
            samples: series.into_iter().map(sample).collect(),
            is_connected: false,
            failures,
            is_ready: failure.is_none() && self.schema.is_known,
        }
    }

    /// Returns the metrics that describe the reader.
    fn reader_metrics(&self, distrust: Option<Distrust>) -> Vec<(Key, Numbers)> {
        let flag = |is: bool| f64::from(u8::from(is));
        let mut metrics = Vec::new();
        let mut add = |name, labels: &[&str], value| metrics.extend(gauge(name, labels, value));
        add("redrive_up", &[], flag(distrust.is_none()));
        add("redrive_exporter_build_info", &[&self.version], 1.0);
        let regressions = self.guard.regressions.into();
        add("redrive_totals_regressions_total", &[], regressions);
        add("redrive_schema_version", &[], self.schema.version.into());
        add("redrive_schema_compatible", &[], flag(self.schema.is_known));
        for cause in Distrust::ALL {
            let is_cause = distrust == Some(cause);
            add("redrive_down", &[cause.as_str()], flag(is_cause));
        }
        for (source, state) in &self.sources {
            let (labels, duration) = ([source.as_str()], state.duration.as_secs_f64());
            add("redrive_collector_duration_seconds", &labels, duration);
            let success = flag(state.failure.is_none());
            add("redrive_collector_success", &labels, success);
            let name = "redrive_collector_last_success_timestamp_seconds";
            add(name, &labels, state.good.map_or(0.0, |(_, at)| at));
        }
        metrics
    }
}

/// Folds many counters. A reading costs what is not folded, and without a worker nobody else folds. If it fails, the
/// counters are still right, and reading them may take too long.
fn fold_backlog(client: &mut Client, time: Duration) {
    let folded = query(client, "fold the counters", &sql::FOLD_BACKLOG, time);
    if let Err(error) = folded {
        log::debug!("{error}");
    }
}

/// Reads the series of a source.
fn read_source(
    client: &mut Client,
    source: Source,
    sql: &Sql,
    time: Duration,
) -> Result<Vec<(Key, Numbers)>> {
    let doing = format!("read the metrics of {}", source.as_str());
    if time.is_zero() {
        return Err(Error::unavailable(format!(
            "could not {doing}: the time budget is used up"
        )));
    }
    let rows = query(client, &doing, sql, time)?;
    let series = rows.iter().map(|row| read_series(source, row).transpose());
    let series = series.flatten().collect::<Result<_, _>>();
    series.map_err(|error| Error::from_postgres(doing, error))
}

/// Runs a query in a transaction with a statement timeout of `time`.
///
/// Without `row_security`, a query that would miss rows fails. All settings are local to the
/// transaction, so this also works behind a transaction-mode pooler.
fn query(client: &mut Client, doing: &str, sql: &Sql, time: Duration) -> Result<Vec<Row>> {
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
/// Returns `None` if the catalogue does not define the series for this source: a newer schema may publish metrics
/// that this version does not know, and use different bounds.
fn read_series(source: Source, row: &Row) -> Result<Option<(Key, Numbers)>, postgres::Error> {
    let Some(key) = Key::new(row.try_get("metric")?, row.try_get("labels")?) else {
        return Ok(None);
    };
    let numbers = match source == Source::Totals {
        true => row.try_get("numbers")?,
        false => vec![row.try_get("value")?],
    };
    let is_known = key.source() == source && numbers.len() == zero(key.metric()).len();
    Ok(is_known.then_some((key, numbers)))
}

fn remaining(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

#[cfg(test)]
mod tests;
