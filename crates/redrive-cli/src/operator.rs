//! The operator who runs this command, for the audit log: user and host name.

use clap::Args;
use nix::unistd::{Uid, User};
use redrive::Operator;

use crate::optional::Optional as _;

/// Why the operator acts. A command that needs it makes the argument `reason` required.
#[derive(Args, Debug)]
#[group(skip)]
pub(crate) struct Reason {
    /// The reason, for other operators and the audit log.
    #[arg(long, value_name = "TEXT", value_parser = not_blank)]
    reason: Option<String>,
}

/// Parses the value of `--reason`.
fn not_blank(reason: &str) -> Result<String, String> {
    match reason.trim().is_empty() {
        true => Err("a reason cannot be empty".to_owned()),
        false => Ok(reason.to_owned()),
    }
}

impl Reason {
    pub(crate) fn text(&self) -> Option<&str> {
        self.reason.as_deref()
    }

    pub(crate) fn operator(&self) -> Operator {
        current(self.text())
    }
}

/// The operator, with the reason given on the command line.
pub(crate) fn current(reason: Option<&str>) -> Operator {
    Operator::new(name()).with(reason, Operator::reason)
}

/// `user@host`. Without a variable that names the user, the name is that of the account; without an account, it is
/// `uid 1000`.
fn name() -> String {
    let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let uid = Uid::current();
    let account = || Some(User::from_uid(uid).ok()??.name);
    let user = variable("USER")
        .or_else(|| variable("LOGNAME"))
        .or_else(account)
        .unwrap_or_else(|| format!("uid {uid}"));
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    format!("{user}@{host}")
}
