//! The account that runs servers, because PostgreSQL does not run as root.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

use nix::unistd::{User, geteuid};
use tempfile::TempDir;

/// The account, if this process runs as root.
#[derive(Clone, Copy, Debug)]
pub struct Account(Option<(u32, u32)>);

impl Account {
    /// Returns the account `postgres`, or `nobody` if there is none.
    pub fn for_servers() -> Account {
        Account(geteuid().is_root().then(|| {
            let mut users = ["postgres", "nobody"].into_iter().filter_map(|name| {
                let user = User::from_name(name);
                user.expect("read the list of accounts")
            });
            let user = users.next();
            let user = user.expect("PostgreSQL does not run as root; create an account `postgres`");
            (user.uid.as_raw(), user.gid.as_raw())
        }))
    }

    /// Makes a folder that the account owns below another one, removed when the result is dropped.
    pub fn folder_in(self, place: &Path) -> TempDir {
        let folder = tempfile::Builder::new()
            .prefix("redrive-")
            .tempdir_in(place);
        let folder = folder.expect("make a folder for a server");
        self.owns(folder.path());
        folder
    }

    /// Gives a file or folder to the account.
    pub fn owns(self, path: &Path) {
        if let Some((uid, gid)) = self.0 {
            chown(path, Some(uid), Some(gid)).expect("give a file to the account");
        }
    }

    /// Runs a program as the account.
    pub fn runs(self, command: &mut Command) {
        if let Some((uid, gid)) = self.0 {
            command.uid(uid).gid(gid);
        }
    }
}
