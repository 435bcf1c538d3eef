#![doc = include_str!("../README.md")]

mod args;
mod check;
mod collector;
mod deadline;
mod error;
mod http;
#[cfg(test)]
mod inputs;
mod limits;
mod listen;
mod logging;
mod pages;
mod source;

use std::ffi::OsString;
use std::io::{self, LineWriter, Write};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Parser as _;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

use crate::args::Arguments;
use crate::collector::Collector;
use crate::error::{Error, Result};
use crate::http::Door;
use crate::source::Source;

/// How long a stop waits for the answers that are under way.
const GRACE: Duration = Duration::from_secs(10);
/// How long it waits for the connection to the database to be closed.
const FAREWELL: Duration = Duration::from_secs(1);

/// Runs the command line of the process: what `main` answers.
pub fn main() -> ExitCode {
    run(
        std::env::args_os(),
        &mut LineWriter::new(io::stdout()),
        &mut io::stderr(),
    )
}

/// Runs one command line, the program's name first, and answers the exit code.
///
/// It serves until the process gets SIGTERM or SIGINT. What was asked for goes to `out`, errors to
/// `err`, log lines to the stderr of the process.
pub fn run(
    args: impl IntoIterator<Item = OsString>,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> ExitCode {
    let arguments = match Arguments::try_parse_from(args) {
        Ok(arguments) => arguments,
        Err(told) => {
            let stream: &mut dyn Write = if told.use_stderr() { err } else { out };
            // When the stream is gone, the exit code is all that is left to tell.
            _ = write!(stream, "{}", told.render());
            return ExitCode::from(u8::try_from(told.exit_code()).unwrap_or(2));
        }
    };
    let ended = match arguments.check {
        true => ask(&arguments, out),
        false => serve(&arguments, out).map(|()| ExitCode::SUCCESS),
    };
    ended.unwrap_or_else(|error| {
        _ = writeln!(err, "error: {}", error.told());
        match arguments.check {
            true => ExitCode::from(1),
            false => ExitCode::from(2),
        }
    })
}

fn ask(arguments: &Arguments, out: &mut dyn Write) -> Result<ExitCode> {
    let said = check::check(&arguments.listen_address)?;
    // Whether anybody reads it does not change what it says.
    _ = writeln!(out, "{}", said.words);
    Ok(match said.is_ready {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(1),
    })
}

fn serve(arguments: &Arguments, out: &mut dyn Write) -> Result<()> {
    logging::start(arguments.log_level);
    let source = Source::of(arguments)?;
    let stop = signals()?;
    let most = limits::visitors();
    let listener = listen::listen(&arguments.listen_address)?;
    let failed = |error| Error::caused_by("could not open the listening socket", error);
    let address = listener.local_addr().map_err(failed)?;

    let collector = Arc::new(Collector::start(source, most / 2));
    let door = Door::new(listener, most, {
        let collector = Arc::clone(&collector);
        let path = arguments.telemetry_path.clone();
        move |head| pages::answer(head, &path, &collector)
    })
    .map_err(failed)?;
    let path = &arguments.telemetry_path;
    // For people and for tests, which let the system choose the port.
    _ = writeln!(out, "listening on http://{address}{path}");
    log::info!(
        "redrive-exporter {} listens on http://{address}{path}",
        env!("CARGO_PKG_VERSION")
    );

    let all_served = door.serve(&stop, GRACE);
    log::info!("stopping");
    if !all_served {
        log::warn!("some who asked were left without an answer");
    }
    if !collector.stop(FAREWELL) {
        log::info!("the connection to the database is left as it is: nobody answers there");
    }
    Ok(())
}

/// The end of a pipe that SIGTERM and SIGINT write to.
fn signals() -> Result<UnixStream> {
    let failed = |error| Error::caused_by("could not listen to signals", error);
    let (signals, stop) = UnixStream::pair().map_err(failed)?;
    for signal in [SIGTERM, SIGINT] {
        let end = signals.try_clone().map_err(failed)?;
        pipe::register(signal, end).map_err(failed)?;
    }
    Ok(stop)
}
