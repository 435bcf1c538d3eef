//! The account that a PostgreSQL server runs under: it refuses to run as root.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, anyhow};
use nix::unistd::{User, geteuid};

/// An unprivileged account of this machine.
#[derive(Clone, Debug)]
pub(crate) struct Account(User);

impl Account {
    /// Returns the account that servers must run under, or `None` when the current one will do.
    ///
    /// For root this is the account `postgres`; if that is missing, an unprivileged system account.
    pub(crate) fn for_servers() -> Result<Option<Account>> {
        if !is_root() {
            return Ok(None);
        }
        for name in ["postgres", "nobody"] {
            let user = User::from_name(name).context("cannot read the list of accounts")?;
            if let Some(user) = user {
                return Ok(Some(Account(user)));
            }
        }
        Err(anyhow!(
            "PostgreSQL does not run as root, and this machine has neither an account `postgres` \
             nor `nobody`.\nCreate one: useradd --system postgres"
        ))
    }

    pub(crate) fn name(&self) -> &str {
        &self.0.name
    }

    /// Makes a program run under this account, without supplementary groups.
    pub(crate) fn run<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        // The standard library drops root's supplementary groups when a uid is set.
        command.uid(self.0.uid.as_raw()).gid(self.0.gid.as_raw())
    }

    /// Makes the account the owner of a file or folder.
    pub(crate) fn own(&self, path: &Path) -> Result<()> {
        chown(path, Some(self.0.uid.as_raw()), Some(self.0.gid.as_raw())).with_context(|| {
            format!(
                "cannot make `{}` the owner of {}",
                self.name(),
                path.display()
            )
        })
    }
}

pub(crate) fn is_root() -> bool {
    geteuid().is_root()
}
