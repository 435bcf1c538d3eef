//! The command line.

use std::path::PathBuf;

use clap::Parser;
use log::LevelFilter;

/// What the help ends with.
const AFTER: &str = "\
Pages: the telemetry path; /-/healthy, 200 while the process serves; /-/ready,
200 when the database was seen less than 30 seconds ago and its schema is one
that this program knows, else 503.

Exit codes:
  0  stopped by SIGTERM or SIGINT; with --check: ready
  1  with --check: not ready, or nobody answers
  2  an error: a wrong argument, a port that is in use";

/// Publishes the numbers of redrive for Prometheus: queues, dead letters, workers, tables, and
/// what holds vacuum back.
///
/// It uses one connection, and keeps answering while the database is away.
#[derive(Debug, Parser)]
#[command(name = "redrive-exporter", version, after_help = AFTER, max_term_width = 90)]
pub(crate) struct Arguments {
    /// Where to listen: host:port, or :port for every address of the machine
    #[arg(
        long = "web.listen-address",
        value_name = "ADDRESS",
        env = "REDRIVE_EXPORTER_LISTEN_ADDRESS",
        default_value = "127.0.0.1:9898"
    )]
    pub(crate) listen_address: String,

    /// The path of the metrics
    #[arg(
        long = "web.telemetry-path",
        value_name = "PATH",
        env = "REDRIVE_EXPORTER_TELEMETRY_PATH",
        default_value = "/metrics",
        value_parser = telemetry_path
    )]
    pub(crate) telemetry_path: String,

    /// The PostgreSQL database, such as `postgres://redrive_exporter@host/shop`; without a
    /// password, which every user of the machine could read here: put it
    /// into `DATABASE_URL` or into a file
    #[arg(long, value_name = "URL", conflicts_with = "database_url_file")]
    pub(crate) database_url: Option<String>,

    /// A file that holds the database URL; read anew for every connection, so that a password
    /// can change
    #[arg(long, value_name = "FILE", env = "REDRIVE_EXPORTER_DATABASE_URL_FILE")]
    pub(crate) database_url_file: Option<PathBuf>,

    /// Ask a running exporter at the listen address whether it is ready, and exit
    #[arg(long)]
    pub(crate) check: bool,

    /// What to log on stderr
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
        return Err("a path begins with `/`; `/` and `/-/…` are other pages".to_owned());
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"/._-~".contains(&byte);
    if !path.bytes().all(plain) {
        return Err("a path is made of letters, digits and `/._-~`".to_owned());
    }
    Ok(path.to_owned())
}

fn log_level(level: &str) -> Result<LevelFilter, String> {
    level
        .parse()
        .map_err(|_| "one of off, error, warn, info, debug, trace".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn a_telemetry_path_is_a_page_of_its_own() {
        for good in ["/metrics", "/redrive/metrics", "/a.b-c_d~"] {
            assert_eq!(telemetry_path(good).as_deref(), Ok(good));
        }
        for bad in ["", "/", "metrics", "/-/ready", "/a b", "/a?b", "/<script>"] {
            telemetry_path(bad).expect_err(bad);
        }
    }
}
