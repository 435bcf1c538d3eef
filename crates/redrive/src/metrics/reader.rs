//! The reader: asks the database for every metric of the catalogue, source by source.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use postgres::{Client, SimpleQueryRow};

use crate::error::{Error, Result};
use crate::metrics::answer;
use crate::metrics::guard::Guard;
use crate::metrics::horizon::Horizon;
use crate::metrics::names::Names;
use crate::metrics::series::{Key, families};
use crate::metrics::zero::fill;
use crate::metrics::{Family, Source, Value};
use crate::migrate::{self, Standing};
use crate::sql::{self, Sql};

/// Reads the metrics, and keeps the last good value of each.
///
/// It needs nothing but a connection, and a role that was granted the metrics
/// (`SELECT redrive.grant_metrics('…')`); without the rights of `pg_monitor` it does not see how old
/// other people's transactions are. It is a value: whoever wants to go on after a call that never
/// came back keeps a clone.
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
/// assert!(reading.families.iter().any(|family| family.metric.name == "redrive_up"));
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Reader {
    version: String,
    collectors: BTreeMap<Source, Collector>,
    names: Names,
    guard: Guard,
    horizon: Horizon,
    schema: Standing,
    /// How long the last reading took.
    took: Duration,
}

/// What a reading found.
#[derive(Debug)]
#[non_exhaustive]
pub struct Reading {
    /// The metrics, in the order of the catalogue; those that were not read now have their last
    /// good values.
    pub families: Vec<Family>,
    /// Whether the connection can be used again.
    pub is_connected: bool,
    /// What could not be read now, and why; without a source it is the whole database.
    pub failures: Vec<(Option<Source>, Error)>,
    is_ready: bool,
}

impl Reading {
    /// Whether the database answered, and its schema is one that this library knows.
    pub fn is_ready(&self) -> bool {
        self.is_ready
    }
}

/// What is known of a source.
#[derive(Clone, Debug, Default)]
struct Collector {
    /// Its last good answer.
    answer: Vec<(Key, Value)>,
    /// Whether it was read at its last turn.
    is_good: bool,
    /// When its last good answer came, in seconds since 1970 by the database; 0: never.
    good_at: f64,
    took: Duration,
    /// When it was asked last.
    asked: Option<Instant>,
}

/// What the database says first.
struct Greeting {
    identity: String,
    now: f64,
    next_id: u64,
    has_schema: bool,
}

impl Reader {
    /// A reader that has read nothing yet. `version` goes into `redrive_exporter_build_info`.
    pub fn new(version: &str) -> Reader {
        let collectors = Source::DATABASE.map(|source| (source, Collector::default()));
        Reader {
            version: version.to_owned(),
            collectors: collectors.into(),
            names: Names::default(),
            guard: Guard::default(),
            horizon: Horizon::default(),
            schema: Standing::default(),
            took: Duration::ZERO,
        }
    }

    /// Reads every source whose turn it is, within the budget, on the caller's connection.
    ///
    /// It never fails: a source that cannot be read keeps its last good values, and
    /// `redrive_collector_success` says so. The server ends what takes longer than the budget, and
    /// no source gets more than half of what is left. A server that is silent with its connection
    /// open blocks, as the driver does, so call it on a thread that can be given up.
    pub fn read(&mut self, client: &mut Client, budget: Duration) -> Reading {
        let start = Instant::now();
        let deadline = start + budget;
        let mut failures = Vec::new();
        match greet(client, deadline) {
            Ok(greeting) => {
                self.meet(&greeting);
                match self.look_at_schema(client, &greeting, deadline) {
                    Ok(true) => self.ask_all(client, &greeting, deadline, &mut failures),
                    Ok(false) => self.fail_all(start),
                    Err(error) => {
                        self.fail_all(start);
                        failures.push((None, error));
                    }
                }
            }
            Err(error) => {
                self.fail_all(start);
                failures.push((None, error));
            }
        }
        self.took = start.elapsed();
        let is_connected = !client.is_closed();
        let is_up = is_connected && !failures.iter().any(|(source, _)| source.is_none());
        for (_, error) in &failures {
            log::debug!("{error}");
        }
        Reading {
            is_connected,
            failures,
            ..self.publish(is_up)
        }
    }

    /// What is known when there is no connection: `redrive_up` 0 and the last good values.
    pub fn unreachable(&mut self) -> Reading {
        self.fail_all(Instant::now());
        self.publish(false)
    }

    /// Forgets what was read when this is another database than before.
    fn meet(&mut self, greeting: &Greeting) {
        if self.guard.watch(&greeting.identity) {
            *self = Reader {
                guard: self.guard.clone(),
                ..Reader::new(&self.version)
            };
        }
        self.horizon.sample(greeting.now, greeting.next_id);
    }

    /// Looks which migrations there are; answers whether there is anything to ask.
    fn look_at_schema(
        &mut self,
        client: &mut Client,
        greeting: &Greeting,
        deadline: Instant,
    ) -> Result<bool> {
        self.schema = Standing::default();
        if greeting.has_schema {
            let doing = "read the schema's version";
            let rows = answer::ask(client, doing, &sql::SCHEMA_VERSION, left(deadline))?;
            self.schema = migrate::standing(&rows);
        }
        Ok(greeting.has_schema)
    }

    fn ask_all(
        &mut self,
        client: &mut Client,
        greeting: &Greeting,
        deadline: Instant,
        failures: &mut Vec<(Option<Source>, Error)>,
    ) {
        for source in Source::DATABASE {
            let start = Instant::now();
            let Some(collector) = self.collectors.get_mut(&source) else {
                continue;
            };
            if !collector.is_due(source, start) {
                continue;
            }
            match ask(client, source, left(deadline) / 2) {
                Ok(mut series) => {
                    if source == Source::Server {
                        date(&mut series, &self.horizon, greeting);
                    }
                    collector.answer = series;
                    collector.is_good = true;
                    collector.good_at = greeting.now;
                }
                Err(error) => {
                    collector.is_good = false;
                    failures.push((Some(source), error));
                }
            }
            collector.asked = Some(start);
            collector.took = start.elapsed();
        }
    }

    /// Nobody could be asked.
    fn fail_all(&mut self, now: Instant) {
        for (source, collector) in &mut self.collectors {
            if collector.is_due(*source, now) {
                collector.is_good = false;
            }
        }
    }

    /// Everything that is known now.
    fn publish(&mut self, is_up: bool) -> Reading {
        let answered: BTreeSet<Source> = self
            .collectors
            .iter()
            .filter(|(_, collector)| collector.good_at > 0.0)
            .map(|(source, _)| *source)
            .collect();
        let answers = self
            .collectors
            .values()
            .flat_map(|c| c.answer.iter().cloned());
        let mut series = self.names.fold(answers);
        fill(&mut series, &answered);
        if answered.contains(&Source::Totals) {
            let beyond = number(self.names.beyond());
            series.extend(gauge("redrive_series_folded", &["queue"], beyond));
        }
        self.guard.pass(&mut series, &answered, Instant::now());
        series.extend(self.own(is_up));
        Reading {
            families: families(series),
            is_connected: false,
            failures: Vec::new(),
            is_ready: is_up && self.schema.is_known,
        }
    }

    /// The metrics of the reader itself.
    fn own(&self, is_up: bool) -> Vec<(Key, Value)> {
        let flag = |is: bool| f64::from(u8::from(is));
        let regressions = usize::try_from(self.guard.regressions()).unwrap_or(usize::MAX);
        let mut own: Vec<(Key, Value)> = [
            gauge("redrive_up", &[], flag(is_up)),
            gauge("redrive_exporter_build_info", &[&self.version], 1.0),
            gauge(
                "redrive_scrape_duration_seconds",
                &[],
                self.took.as_secs_f64(),
            ),
            gauge(
                "redrive_counter_regressions_total",
                &[],
                number(regressions),
            ),
            gauge("redrive_schema_version", &[], self.schema.version.into()),
            gauge("redrive_schema_compatible", &[], flag(self.schema.is_known)),
        ]
        .into_iter()
        .flatten()
        .collect();
        for (source, collector) in &self.collectors {
            let of = |name, value| gauge(name, &[source.as_str()], value);
            own.extend(of(
                "redrive_collector_duration_seconds",
                collector.took.as_secs_f64(),
            ));
            own.extend(of("redrive_collector_success", flag(collector.is_good)));
            own.extend(of(
                "redrive_collector_last_success_timestamp_seconds",
                collector.good_at,
            ));
        }
        own
    }
}

impl Collector {
    /// Whether it is its turn. One that failed is asked again sooner.
    fn is_due(&self, source: Source, now: Instant) -> bool {
        // A little less than a minute and an hour: scrapes are not on the second.
        let every = match source {
            Source::Tables => Duration::from_secs(55),
            Source::Bloat => Duration::from_mins(59),
            Source::Totals
            | Source::Queues
            | Source::Letters
            | Source::Operations
            | Source::Server
            | Source::Reader => Duration::ZERO,
        };
        let every = if self.is_good {
            every
        } else {
            every.min(Duration::from_secs(15))
        };
        self.asked
            .is_none_or(|asked| now.saturating_duration_since(asked) >= every)
    }
}

fn greet(client: &mut Client, deadline: Instant) -> Result<Greeting> {
    let doing = "ask the database who it is";
    let rows = answer::ask(client, doing, &sql::IDENTIFY, left(deadline))?;
    let text = |column| rows.first()?.try_get(column).ok()?;
    let greeting = || {
        Some(Greeting {
            identity: text("identity")?.to_owned(),
            now: text("now")?.parse().ok()?,
            next_id: text("next_id")?.parse().ok()?,
            has_schema: text("has_schema")? == "t",
        })
    };
    greeting().ok_or_else(|| Error::unavailable(format!("could not {doing}: no answer")))
}

/// Asks a source for its series.
fn ask(client: &mut Client, source: Source, time: Duration) -> Result<Vec<(Key, Value)>> {
    let doing = format!("read the metrics of {}", source.as_str());
    let Some(sql) = statement(source) else {
        return Ok(Vec::new());
    };
    if time.is_zero() {
        return Err(Error::unavailable(format!(
            "could not {doing}: no time is left"
        )));
    }
    let rows = answer::ask(client, &doing, sql, time)?;
    let series = |row: &SimpleQueryRow| answer::series(&doing, row).transpose();
    let series: Vec<(Key, Value)> = rows.iter().filter_map(series).collect::<Result<_>>()?;
    // What another source answers for is none of its business.
    let own = series.into_iter().filter(|(key, _)| key.source() == source);
    Ok(own.collect())
}

fn statement(source: Source) -> Option<&'static Sql> {
    Some(match source {
        Source::Totals => &sql::METRIC_TOTALS,
        Source::Queues => &sql::METRICS_QUEUES,
        Source::Letters => &sql::METRICS_LETTERS,
        Source::Operations => &sql::METRICS_OPERATIONS,
        Source::Server => &sql::METRICS_SERVER,
        Source::Tables => &sql::METRICS_TABLES,
        Source::Bloat => &sql::METRICS_BLOAT,
        Source::Reader => return None,
    })
}

/// Adds since when slots and standbys keep vacuum from what they hold: they do not say it.
fn date(series: &mut Vec<(Key, Value)>, horizon: &Horizon, greeting: &Greeting) {
    for holder in ["slot", "standby_feedback"] {
        let of = |name| Key::new(name, vec![holder.to_owned()]);
        let transactions = of("redrive_pg_oldest_horizon_age_transactions");
        let held = series
            .iter()
            .find(|(key, _)| Some(key) == transactions.as_ref());
        let Some((_, Value::Number(transactions))) = held else {
            continue;
        };
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "it was an integer, and negative ones become 0"
        )]
        let id = greeting.next_id.saturating_sub(*transactions as u64);
        let seconds = horizon.age(id, greeting.now, greeting.next_id);
        let seconds = gauge("redrive_pg_oldest_horizon_age_seconds", &[holder], seconds);
        series.extend(seconds);
    }
}

/// A series and its value; none when it is not in the catalogue.
fn gauge(name: &str, labels: &[&str], value: f64) -> Option<(Key, Value)> {
    let labels = labels.iter().map(|&label| label.to_owned()).collect();
    Some((Key::new(name, labels)?, Value::Number(value)))
}

#[expect(clippy::cast_precision_loss, reason = "there are not that many")]
fn number(count: usize) -> f64 {
    count as f64
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}
