//! A metric: its name, type, labels, and who answers for it.

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum MetricKind {
    /// It only grows; its name ends in `_total`.
    Counter,
    /// It goes up and down.
    Gauge,
    /// Counts by the upper bounds of buckets, each inclusive, without `+Inf`.
    Histogram(&'static [f64]),
}

/// Who answers for a metric: each source is read apart, fails apart, and says so in
/// `redrive_collector_success`.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Source {
    /// Totals of what was counted in the statements themselves.
    Totals,
    /// The live jobs of a queue and their ages.
    Queues,
    /// The letters and their ages.
    Letters,
    /// Workers, redrive runs, breakers, failure groups.
    Operations,
    /// The tables: size, dead rows, vacuum, the ring.
    Tables,
    /// The estimate of their bloat.
    Bloat,
    /// The server: who holds the xmin horizon, slots, locks, connections.
    Server,
    /// The reader itself. It needs no database.
    Reader,
}

impl Source {
    /// Its value of the label `collector`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Source::Totals => "totals",
            Source::Queues => "queues",
            Source::Letters => "letters",
            Source::Operations => "operations",
            Source::Tables => "tables",
            Source::Bloat => "bloat",
            Source::Server => "server",
            Source::Reader => "reader",
        }
    }

    /// Those that ask the database, in the order in which they are read.
    pub const DATABASE: [Source; 7] = [
        Source::Totals,
        Source::Queues,
        Source::Letters,
        Source::Operations,
        Source::Server,
        Source::Tables,
        Source::Bloat,
    ];
}

/// One metric.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Metric {
    /// Its name, as it is scraped.
    pub name: &'static str,
    /// Counter, gauge or histogram.
    pub kind: MetricKind,
    /// Its labels, in order.
    pub labels: &'static [Label],
    /// Who answers for it.
    pub source: Source,
    /// What it says, for people.
    pub help: &'static str,
}

/// A label of a metric.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Label {
    /// Its name.
    pub name: &'static str,
    /// Its values, when they are known beforehand: each is published from the beginning, as 0.
    /// Empty: whatever comes, such as queues.
    pub values: &'static [&'static str],
}
