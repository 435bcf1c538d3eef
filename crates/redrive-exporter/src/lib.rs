#![doc = include_str!("../README.md")]

mod logging;
mod args;
mod database_url;
mod scrape_timeout;
mod http;
mod source;
mod collector;
mod handler;
mod check;
#[cfg(test)]
mod proptests;

use std::io::{self, Write as _};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser as _;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

use crate::args::Arguments;
use crate::collector::Collector;
use crate::database_url::DatabaseUrl;
use crate::http::Listener;

/// How long a shutdown waits for requests in flight.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(10);

/// Runs the program with the arguments of the process. Serves until the process receives SIGTERM or SIGINT.
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let (result, failed) = match arguments.check {
        true => (run_check(&arguments), 1),
        false => (serve(&arguments).map(|()| ExitCode::SUCCESS), 2),
    };
    result.unwrap_or_else(|error| {
        _ = writeln!(io::stderr(), "error: {error:#}");
        ExitCode::from(failed)
    })
}

fn run_check(arguments: &Arguments) -> Result<ExitCode> {
    let (is_ready, message) = check::check(&arguments.listen_address)?;
    // The exit code does not depend on whether the message can be written.
    _ = writeln!(io::stdout(), "{message}");
    Ok(match is_ready {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(1),
    })
}

fn serve(arguments: &Arguments) -> Result<()> {
    logging::start(arguments.log_level);
    let database_url = DatabaseUrl::from_arguments(arguments)?;
    let stop = stop_signals()?;
    let connections = http::most_connections();
    let socket = http::bind(&arguments.listen_address)?;
    let failed = "could not open the listening socket";
    let address = socket.local_addr().context(failed)?;

    // The other connections are answered at once, whatever the database does.
    let collector = Collector::start(database_url, connections / 3)?;
    let path = &arguments.telemetry_path;
    let listener = Listener::new(socket, connections, {
        let path = path.clone();
        move |request| handler::handle(request, &path, &collector)
    })
    .context(failed)?;
    // Tests let the system choose the port and read it here.
    _ = writeln!(io::stdout(), "listening on http://{address}{path}");
    log::info!(
        "redrive-exporter {} listens on http://{address}{path}",
        env!("CARGO_PKG_VERSION")
    );

    let all_answered = listener.serve(&stop, SHUTDOWN_GRACE);
    log::info!("shutting down");
    if !all_answered {
        log::warn!("shut down with requests still in flight");
    }
    Ok(())
}

/// Returns a stream that becomes readable on SIGTERM and SIGINT.
fn stop_signals() -> Result<UnixStream> {
    let failed = "could not listen for signals";
    let (sender, receiver) = UnixStream::pair().context(failed)?;
    for signal in [SIGTERM, SIGINT] {
        let sender = sender.try_clone().context(failed)?;
        pipe::register(signal, sender).context(failed)?;
    }
    Ok(receiver)
}
