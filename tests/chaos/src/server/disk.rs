//! The disk of the write-ahead log: a tmpfs small enough to be filled, where one can be mounted.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
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
    let mut mount = Command::new("mount");
    mount
        .args(["-t", "tmpfs", "-o", "size=400m", "tmpfs"])
        .arg(place);
    succeed(&mut mount).expect("mount the small disk");
}

pub(super) fn unmount(place: &Path) {
    // Lazily: the server may still be stopping.
    _ = Command::new("umount").arg("--lazy").arg(place).output();
}

/// Whether a file system can be mounted here. This takes root.
pub(crate) fn can_mount() -> bool {
    geteuid().is_root()
        && tempfile::tempdir().is_ok_and(|place| {
            let mounted = Command::new("mount")
                .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
                .arg(place.path())
                .output();
            let worked = mounted.is_ok_and(|output| output.status.success());
            if worked {
                _ = Command::new("umount").arg(place.path()).output();
            }
            worked && fs::metadata(place.path()).is_ok_and(|folder| folder.uid() == 0)
        })
}
