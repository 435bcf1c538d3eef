//! The account a cluster runs under: PostgreSQL refuses to run as root.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::error::{During, Error, Result};

/// An unprivileged account of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Account {
    /// What it is called.
    pub(crate) name: String,
    uid: u32,
    gid: u32,
}

impl Account {
    /// The account that servers must run under: `None` when ours will do, because we are not
    /// root; else `postgres`, or `nobody` where there is no such account.
    pub(crate) fn for_servers() -> Result<Option<Account>> {
        if !is_root() {
            return Ok(None);
        }
        let list = fs::read_to_string("/etc/passwd").during(|| "cannot read /etc/passwd")?;
        ["postgres", "nobody"].iter().find_map(|name| Account::named(&list, name)).map_or_else(
            || {
                Err(Error::new(
                    "PostgreSQL does not run as root, and there is neither an account `postgres` \
                     nor `nobody` to run it under.\nCreate one: useradd --system postgres",
                ))
            },
            |account| Ok(Some(account)),
        )
    }

    /// Lets a program run under this account, with no further groups.
    pub(crate) fn run<'a>(&self, command: &'a mut Command) -> &'a mut Command {
        // The standard library drops the supplementary groups of root when a uid is given.
        command.uid(self.uid).gid(self.gid)
    }

    /// Makes it the owner of a file or folder.
    pub(crate) fn own(&self, path: &Path) -> Result<()> {
        std::os::unix::fs::chown(path, Some(self.uid), Some(self.gid)).during(|| {
            format!(
                "cannot give {} to the account `{}`",
                path.display(),
                self.name
            )
        })
    }

    fn named(list: &str, name: &str) -> Option<Account> {
        list.lines().find_map(|line| {
            let mut fields = line.split(':');
            if fields.next()? != name {
                return None;
            }
            let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
            Some(Account {
                name: name.to_owned(),
                uid,
                gid,
            })
        })
    }
}

/// Whether we may do anything, and therefore should not.
pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_found_by_their_whole_name() {
        let list = "postgresql:x:1:2::/:/bin/sh\npostgres:x:101:104:x:/var:/bin/bash\nbad:x::\n";
        assert_eq!(
            Account::named(list, "postgres"),
            Some(Account {
                name: "postgres".to_owned(),
                uid: 101,
                gid: 104
            })
        );
        assert_eq!(Account::named(list, "nobody"), None);
        assert_eq!(Account::named(list, "bad"), None);
    }
}
