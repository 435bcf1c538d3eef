//! The account that runs the servers of single tests, because PostgreSQL does not run as root.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use postgres::{Client, NoTls};
use rustix::process::geteuid;
use uuid::Uuid;

use crate::database::server_url;

/// The account, if the tests run as root.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account(Option<(u32, u32)>);

impl Account {
    /// Returns the account of the shared server.
    pub(crate) fn of_the_server() -> Account {
        Account(geteuid().is_root().then(|| {
            let mut server = Client::connect(&server_url(), NoTls).expect("connect to the server");
            let asked = "SELECT current_setting('data_directory')";
            let row = server.query_one(asked, &[]).expect("ask the server");
            let data: String = row.get(0);
            let owner = fs::metadata(data).expect("the server is on this machine");
            (owner.uid(), owner.gid())
        }))
    }

    /// Makes a new folder that the account owns.
    pub(crate) fn folder(self) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("redrive-{}", Uuid::new_v4().simple()));
        fs::create_dir(&folder).expect("make a folder for a server");
        self.owns(&folder);
        folder
    }

    /// Gives a file or folder to the account.
    pub(crate) fn owns(self, path: &Path) {
        if let Some((uid, gid)) = self.0 {
            chown(path, Some(uid), Some(gid)).expect("give a file to the account");
        }
    }

    /// Runs a program as the account.
    pub(crate) fn runs(self, command: &mut Command) {
        if let Some((uid, gid)) = self.0 {
            command.uid(uid).gid(gid);
        }
    }
}
