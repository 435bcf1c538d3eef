//! The command line.

use std::path::PathBuf;

use clap::Parser;
use log::LevelFilter;

const AFTER_HELP: &str = "\
Pages:
  /metrics    the metrics (see --web.telemetry-path)
  /-/healthy  200 while the process runs
  /-/ready    200 if the database answered within the last 30 seconds and this
              version knows its schema, otherwise 503

Exit codes:
  0  stopped by SIGTERM or SIGINT; with --check: ready
  1  with --check: not ready, or no answer
  2  invalid arguments, or the port is in use";

/// Exports Prometheus metrics of redrive: queues, dead letters, workers, tables, and what holds
/// vacuum back.
///
/// The exporter uses one connection and keeps answering scrapes while the database is away.
#[derive(Debug, Parser)]
#[command(name = "redrive-exporter", version, after_help = AFTER_HELP, max_term_width = 90)]
pub(crate) struct Arguments {
    /// Address to listen on: host:port, or :port for all addresses
    #[arg(
        long = "web.listen-address",
        value_name = "ADDRESS",
        env = "REDRIVE_EXPORTER_LISTEN_ADDRESS",
        default_value = "127.0.0.1:9898"
    )]
    pub(crate) listen_address: String,

    /// Path of the metrics
    #[arg(
        long = "web.telemetry-path",
        value_name = "PATH",
        env = "REDRIVE_EXPORTER_TELEMETRY_PATH",
        default_value = "/metrics",
        value_parser = telemetry_path
    )]
    pub(crate) telemetry_path: String,

    /// PostgreSQL URL, such as `postgres://redrive_exporter@host/shop`. Must not contain a
    /// password, because every user of the machine can read the arguments; use `DATABASE_URL` or
    /// a file instead
    #[arg(long, value_name = "URL", conflicts_with = "database_url_file")]
    pub(crate) database_url: Option<String>,

    /// File that contains the PostgreSQL URL. Read for each scrape, so that you can rotate the
    /// password without a restart
    #[arg(long, value_name = "FILE", env = "REDRIVE_EXPORTER_DATABASE_URL_FILE")]
    pub(crate) database_url_file: Option<PathBuf>,

    /// Check whether the exporter at the listen address is ready, and exit
    #[arg(long)]
    pub(crate) check: bool,

    /// Level of the log on stderr: off, error, warn, info, debug or trace
    #[arg(
        long,
        value_name = "LEVEL",
        env = "REDRIVE_EXPORTER_LOG_LEVEL",
        default_value = "info",
        value_parser = log_level,
    )]
    pub(crate) log_level: LevelFilter,
}

fn telemetry_path(path: &str) -> Result<String, String> {
    if !path.starts_with('/') || path == "/" || path.starts_with("/-/") {
        return Err("the path must start with `/` and must not be `/` or below `/-/`".to_owned());
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte);
    if !path.bytes().all(plain) {
        return Err("the path may contain letters, digits and `/._-~` only".to_owned());
    }
    Ok(path.to_owned())
}

fn log_level(level: &str) -> Result<LevelFilter, String> {
    level
        .parse()
        .map_err(|_| "expected one of off, error, warn, info, debug, trace".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_telemetry_path_does_not_hide_another_page() {
        for good in ["/metrics", "/redrive/metrics", "/a.b-c_d~"] {
            assert_eq!(telemetry_path(good).as_deref(), Ok(good));
        }
        for bad in ["", "/", "metrics", "/-/ready", "/a b", "/a?b", "/<script>"] {
            telemetry_path(bad).expect_err(bad);
        }
    }
}
