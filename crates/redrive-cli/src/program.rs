//! A program with the commands of `redrive` and its own handlers, validators and sinks.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use redrive::Handlers;
use redrive::dlq::{Sink, Validators};

/// A command line with every command of `redrive` and the handlers of your program.
///
/// `work` without `--exec` runs the registered handlers, `dlq validate` uses the registered
/// validators, and `dlq deliver --sink NAME` delivers to a registered sink. Everything else
/// works as in `redrive`.
///
/// ```no_run
/// use redrive::dlq::Validators;
/// use redrive::{Failure, Handlers, Job, Payload};
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
///         _ => Err("the amount is not positive"),
///     }
/// }
///
/// fn main() -> std::process::ExitCode {
///     Program::new("shop-dlq")
///         .version("1.4.2")
///         .handlers(Handlers::new().handle(send_invoice))
///         .validators(Validators::new().check(check_invoice))
///         .main()
/// }
/// ```
#[must_use]
pub struct Program {
    pub(crate) name: String,
    pub(crate) version: Option<String>,
    pub(crate) handlers: Handlers,
    pub(crate) validators: Validators,
    pub(crate) sinks: BTreeMap<String, Arc<dyn Sink + Send + Sync>>,
}

impl Program {
    /// Creates a program with this name and nothing registered.
    pub fn new(name: impl Into<String>) -> Program {
        Program {
            name: name.into(),
            version: None,
            handlers: Handlers::new(),
            validators: Validators::new(),
            sinks: BTreeMap::new(),
        }
    }

    /// Sets the version of the program, which `--version` prints and every attempt records.
    ///
    /// Defaults to the version of redrive.
    pub fn version(mut self, version: impl Into<String>) -> Program {
        self.version = Some(version.into());
        self
    }

    /// Sets the handlers for `work`.
    pub fn handlers(mut self, handlers: Handlers) -> Program {
        self.handlers = handlers;
        self
    }

    /// Sets the validators for `dlq validate`. A validator must not have side effects.
    pub fn validators(mut self, validators: Validators) -> Program {
        self.validators = validators;
        self
    }

    /// Registers a sink for `dlq deliver --sink NAME`.
    pub fn sink(mut self, name: &str, sink: impl Sink + Send + Sync + 'static) -> Program {
        self.sinks.insert(name.to_owned(), Arc::new(sink));
        self
    }

    pub(crate) fn attempt_version(&self) -> String {
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
            .finish_non_exhaustive()
    }
}
