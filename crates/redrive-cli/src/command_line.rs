//! Runs a command line of a program.

use std::ffi::OsString;
use std::io::{self, LineWriter, Write};
use std::process::ExitCode;

use clap::FromArgMatches as _;
use serde_json::json;

use crate::command::{self, Cli};
use crate::context::{Context, Ending};
use crate::error::Error;
use crate::logging;
use crate::name::Me;
use crate::program::Program;
use crate::stop;
use crate::terminal::{Style, clean, json_line};
use crate::time::Clock;

impl Program {
    /// Runs the command line of the process. Call this in `main`.
    pub fn main(&self) -> ExitCode {
        stop::unblock();
        let mut out = LineWriter::new(io::stdout());
        // Stderr is not locked, because log lines and progress bars write to it from other threads.
        self.run(std::env::args_os(), &mut out, &mut io::stderr())
    }

    /// Runs one command line, whose first argument is the program name, and returns the exit code.
    ///
    /// Results go to `out` and messages to `err`. Log lines and progress bars go to the stderr of
    /// the process. A broken pipe is not an error.
    pub fn run(
        &self,
        args: impl IntoIterator<Item = OsString>,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> ExitCode {
        Me::run_as(&self.name);
        let args: Vec<OsString> = args.into_iter().collect();
        let is_json = args.iter().any(|arg| arg == "--json");
        let parsed = command::definition(self)
            .try_get_matches_from(args)
            .and_then(|matches| Cli::from_arg_matches(&matches));
        let cli = match parsed {
            Ok(cli) => cli,
            Err(message) => return print(&message, self, is_json, out, err),
        };
        logging::start(cli.global.verbose);
        let mut cx = Context {
            out,
            err,
            global: &cli.global,
            program: self,
            db: None,
        };
        let ended = cli.command.run(&mut cx);
        // It keeps no connection.
        Clock::Own.set();
        match ended.and_then(|ending| Ok(cx.out.flush().map(|()| ending)?)) {
            Ok(Ending::Done) | Err(Error::BrokenPipe) => ExitCode::SUCCESS,
            Ok(Ending::NothingMatched) => ExitCode::from(1),
            Err(stopped @ Error::Stopped) => {
                cx.say(stopped.one_line());
                ExitCode::from(1)
            }
            Err(error) => {
                let message = error.one_line();
                // If stderr is closed too, the exit code still reports the error.
                _ = match cli.global.json {
                    true => json_line(cx.err, &json!({ "error": message })),
                    false => {
                        let label = Style::of_stderr().error("error:");
                        writeln!(cx.err, "{label} {}", clean(&message)).map_err(Error::from)
                    }
                };
                ExitCode::from(2)
            }
        }
    }
}

/// Prints help and versions to `out`, and usage errors to `err`.
fn print(
    message: &clap::Error,
    program: &Program,
    is_json: bool,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> ExitCode {
    let text = |style: &Style| {
        let text = match style.has_colors() {
            true => message.render().ansi().to_string(),
            false => message.render().to_string(),
        };
        command::named(&text, &program.name)
    };
    let written = if message.use_stderr() && is_json {
        let text = message.render().to_string();
        // The rest is advice.
        let fault = text.split("\n\n").next().unwrap_or_default();
        let fault = fault.strip_prefix("error: ").unwrap_or(fault);
        let line = json!({ "error": fault.replace("\n  ", " ") });
        writeln!(err, "{line}")
    } else if message.use_stderr() {
        err.write_all(text(&Style::of_stderr()).as_bytes())
    } else {
        out.write_all(text(&Style::of_stdout()).as_bytes())
            .and_then(|()| out.flush())
    };
    match written {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => ExitCode::from(2),
        _ => ExitCode::from(u8::try_from(message.exit_code()).unwrap_or(2)),
    }
}
