//! The machine of the benchmarks.

use std::fmt;
use std::fs;

use anyhow::{Context as _, Result};
use postgres::{Client, NoTls};
use serde::{Deserialize, Serialize};

/// The machine and the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// The model of the processor.
    pub(crate) processor: String,
    pub(crate) cores: usize,
    /// Memory in GiB, rounded.
    pub(crate) memory_gib: u64,
    /// The kernel.
    pub(crate) kernel: String,
    /// The version of PostgreSQL.
    pub(crate) postgresql: String,
    /// Settings that differ from the defaults, except paths and ports.
    pub(crate) settings: Vec<String>,
}

impl Machine {
    /// Describes this machine and the server.
    pub(crate) fn detect(url: &str) -> Result<Machine> {
        let mut client = connect(url)?;
        let mut ask = |sql: &str| -> Result<Vec<String>> {
            let rows = client
                .query(sql, &[])
                .with_context(|| "cannot read the settings of the server")?;
            Ok(rows.iter().map(|row| row.get(0)).collect())
        };
        let settings = ask(
            "SELECT name || ' = ' || current_setting(name) FROM pg_settings \
             WHERE source = 'configuration file' AND name !~ 'directories|addresses|^port$|^lc_|^log|DateStyle|TimeZone|text_search' \
             ORDER BY name",
        )?;
        let version = ask("SHOW server_version")?.join("");
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        Ok(Machine {
            processor: field(&read("/proc/cpuinfo"), "model name"),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: gibibytes(&field(&read("/proc/meminfo"), "MemTotal")),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            postgresql: version.split(' ').next().unwrap_or_default().to_owned(),
            settings,
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} cores of {}, {} GiB, Linux {}; PostgreSQL {}, {}; client and server on the same machine",
            self.cores,
            self.processor,
            self.memory_gib,
            self.kernel,
            self.postgresql,
            self.settings.join(", ")
        )
    }
}

/// Returns the server's date and time in UTC.
pub(crate) fn now(url: &str) -> Result<String> {
    let asked = "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI')";
    let row = connect(url)?
        .query_one(asked, &[])
        .with_context(|| "cannot read the time of the server")?;
    Ok(row.get(0))
}

fn connect(url: &str) -> Result<Client> {
    Client::connect(url, NoTls).with_context(|| format!("cannot connect to {url}"))
}

/// Returns the value of the first field with this name in a file of /proc.
fn field(text: &str, name: &str) -> String {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(field, _)| field.trim() == name)
        .map_or_else(
            || "unknown".to_owned(),
            |(_, value)| value.trim().to_owned(),
        )
}

/// Converts `24565256 kB` to GiB.
fn gibibytes(kibibytes: &str) -> u64 {
    let number = kibibytes.split(' ').next().unwrap_or_default();
    let kibibytes: u64 = number.parse().unwrap_or_default();
    (kibibytes + (1 << 19)) >> 20
}
