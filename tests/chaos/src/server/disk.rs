//! The disk of the write-ahead log: a tmpfs small enough to be filled, where one can be mounted.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::geteuid;

use redrive_servers::succeed;

/// Where a server keeps its write-ahead log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Disk {
    /// Beside its data.
    Plain,
    /// On a tmpfs of 400 MB.
    Small,
}

/// The file that fills a disk, removed when dropped.
#[derive(Debug)]
pub(crate) struct Ballast(PathBuf);

impl Ballast {
    /// Writes zeros until the disk has no room.
    pub(super) fn fill(disk: &Path) -> std::io::Result<Ballast> {
        let ballast = Ballast(disk.join("ballast"));
        let mut file = fs::File::create(&ballast.0)?;
        match std::io::copy(&mut std::io::repeat(0), &mut file) {
            Err(error) if error.kind() == ErrorKind::StorageFull => Ok(ballast),
            Err(error) => Err(error),
            Ok(_) => unreachable!("an endless copy ends with an error"),
        }
    }
}

impl Drop for Ballast {
    fn drop(&mut self) {
        _ = fs::remove_file(&self.0);
    }
}

pub(super) fn mount(place: &Path) {
    fs::create_dir(place).expect("create a folder for the small disk");
    try_mount(place).expect("mount the small disk");
}

fn try_mount(place: &Path) -> Result<(), String> {
    let mut mount = Command::new("mount");
    let options = ["-t", "tmpfs", "-o", "size=400m", "tmpfs"];
    succeed(mount.args(options).arg(place))
}

pub(super) fn unmount(place: &Path) {
    // Lazily: the server may still be stopping.
    _ = Command::new("umount").arg("--lazy").arg(place).output();
}

/// Whether a file system can be mounted here. This takes root.
pub(crate) fn can_mount() -> bool {
    geteuid().is_root()
        && tempfile::tempdir().is_ok_and(|place| {
            let has_mounted = try_mount(place.path()).is_ok();
            if has_mounted {
                unmount(place.path());
            }
            has_mounted
        })
}
