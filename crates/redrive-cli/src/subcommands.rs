//! The subcommands of a command.

use clap::Args;

use crate::context::{Context, Ending};
use crate::error::Result;

/// A command without arguments of its own.
#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct Plain {}

impl Plain {
    #[expect(clippy::unused_self, reason = "every command has the same signature")]
    pub(crate) fn run(
        &self,
        run: fn(&mut Context<'_>) -> Result<Ending>,
        cx: &mut Context<'_>,
    ) -> Result<Ending> {
        run(cx)
    }
}

/// The subcommands of a command: `Pause(Arguments).change(true)`. The arguments have the method that is named, or
/// `run`.
macro_rules! subcommands {
    ($(#[$command:meta])* $vis:vis enum $name:ident {
        $($(#[$about:meta])* $variant:ident($arguments:ty) $(.$run:ident($($more:expr),*))?,)*
    }) => {
        #[derive(Debug, clap::Subcommand)]
        $(#[$command])*
        $vis enum $name {
            $($(#[$about])* $variant($arguments),)*
        }

        impl $name {
            #[allow(
                clippy::redundant_closure_for_method_calls,
                reason = "a method of a type with a lifetime is less general than a closure"
            )]
            $vis fn run(&self, cx: &mut $crate::context::Context<'_>) -> $crate::error::Result<$crate::context::Ending> {
                match self {
                    $($name::$variant(command) => $crate::subcommands::run!(command cx $($run $($more)*)?),)*
                }
            }
        }
    };
}
macro_rules! run {
    ($command:ident $cx:ident) => {
        $command.run($cx)
    };
    ($command:ident $cx:ident $run:ident $($more:expr)*) => {
        $command.$run($($more,)* $cx)
    };
}
pub(crate) use {run, subcommands};
