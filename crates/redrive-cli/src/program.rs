//! A program of your own with the verbs of `redrive`: your handlers, validators and sinks.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::io::{self, LineWriter, Write};
use std::process::ExitCode;
use std::sync::Arc;

use redrive::{Failure, HandlerOptions, Handlers, Job, Payload, Sink, Validators};

/// A command line with all that `redrive` can do, which knows what your program knows.
///
/// `work` without `--exec` runs the handlers that are registered here, `dlq validate` checks by
/// the validators, `dlq deliver --sink NAME` delivers to a sink. All else is as in `redrive`.
///
/// ```no_run
/// use redrive::{Failure, Job, Payload};
/// use redrive_cli::Program;
/// # #[derive(serde::Serialize, serde::Deserialize)]
/// # struct Invoice { cents: i64 }
/// # impl Payload for Invoice { const KIND: &'static str = "invoice"; }
///
/// fn send_invoice(invoice: &Job<Invoice>) -> Result<(), Failure> {
///     // ...
///     # let _ = invoice;
///     Ok(())
/// }
///
/// fn check_invoice(invoice: &Invoice) -> Result<(), &'static str> {
///     match invoice.cents {
///         1.. => Ok(()),
///         _ => Err("an invoice over nothing"),
///     }
/// }
///
/// fn main() -> std::process::ExitCode {
///     Program::new("shop-dlq")
///         .version("1.4.2")
///         .handle(send_invoice)
///         .validate(check_invoice)
///         .main()
/// }
/// ```
pub struct Program {
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    pub(crate) handlers: Handlers,
    pub(crate) validators: Validators,
    pub(crate) sinks: BTreeMap<String, Arc<dyn Sink + Send + Sync>>,
}

impl Program {
    /// A program of this name, without anything registered: `redrive` by another name.
    pub fn new(name: impl Into<String>) -> Program {
        Program {
            name: name.into(),
            version: None,
            handlers: Handlers::new(),
            validators: Validators::new(),
            sinks: BTreeMap::new(),
        }
    }

    /// The version of the program, for `--version` and the story of each attempt.
    /// Defaults to redrive's own.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> Program {
        self.version = Some(version.into());
        self
    }

    /// A handler, for `work`.
    #[must_use]
    pub fn handle<P, F>(self, handler: F) -> Program
    where
        P: Payload + 'static,
        F: Fn(&Job<P>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        self.handle_with(HandlerOptions::new(), handler)
    }

    /// A handler with a backoff or deadline of its own.
    #[must_use]
    pub fn handle_with<P, F>(mut self, options: HandlerOptions, handler: F) -> Program
    where
        P: Payload + 'static,
        F: Fn(&Job<P>) -> Result<(), Failure> + Send + Sync + 'static,
    {
        self.handlers = self.handlers.handle_with(options, handler);
        self
    }

    /// All of these handlers instead of those so far: also such as settle their jobs in a
    /// transaction.
    #[must_use]
    pub fn handlers(mut self, handlers: Handlers) -> Program {
        self.handlers = handlers;
        self
    }

    /// A validator of the payloads of a kind, for `dlq validate`: without side effects.
    #[must_use]
    pub fn validate<P, E, F>(mut self, check: F) -> Program
    where
        P: Payload + 'static,
        E: fmt::Display,
        F: Fn(&P) -> Result<(), E> + Send + Sync + 'static,
    {
        self.validators = self.validators.check(check);
        self
    }

    /// All of these validators instead of those so far: also such as look at the whole letter.
    #[must_use]
    pub fn validators(mut self, validators: Validators) -> Program {
        self.validators = validators;
        self
    }

    /// A sink, for `dlq deliver --sink NAME`.
    #[must_use]
    pub fn sink(mut self, name: &str, sink: impl Sink + Send + Sync + 'static) -> Program {
        self.sinks.insert(name.to_owned(), Arc::new(sink));
        self
    }

    /// Runs the command line of the process: what the program's `main` answers.
    pub fn main(&self) -> ExitCode {
        // Not locked: log lines and progress bars write to stderr from other threads.
        self.run(
            std::env::args_os(),
            &mut LineWriter::new(io::stdout()),
            &mut io::stderr(),
        )
    }

    /// Runs one command line, the program's name first, and answers the exit code.
    ///
    /// What was asked for goes to `out`, what is said about it to `err`; log lines and progress
    /// bars go to the stderr of the process. A pipe that broke because its reader had enough is no
    /// error.
    pub fn run(
        &self,
        args: impl IntoIterator<Item = OsString>,
        out: &mut dyn Write,
        err: &mut dyn Write,
    ) -> ExitCode {
        crate::run_as(self, args, out, err)
    }

    /// What to call the version in the story of an attempt.
    pub(crate) fn told_version(&self) -> String {
        match &self.version {
            Some(version) => version.clone(),
            None => concat!("redrive-cli ", env!("CARGO_PKG_VERSION")).to_owned(),
        }
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program")
            .field("name", &self.name)
            .field("handlers", &self.handlers)
            .field("validators", &self.validators)
            .field("sinks", &self.sinks.keys())
            .finish_non_exhaustive()
    }
}
