//! A disk that is small enough to be filled.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::server::succeed;

/// A tmpfs for the folder of a server, unmounted when dropped.
#[derive(Debug)]
pub struct SmallDisk(TempDir);

impl SmallDisk {
    /// Mounts one with room for a server and a copy of its data. This takes root.
    pub fn mount() -> Result<SmallDisk, String> {
        let place = tempfile::tempdir().map_err(|error| error.to_string())?;
        let mut mount = Command::new("mount");
        let options = ["-t", "tmpfs", "-o", "size=800m", "tmpfs"];
        succeed(mount.args(options).arg(place.path()))?;
        Ok(SmallDisk(place))
    }

    /// Returns where it is mounted.
    pub fn place(&self) -> &Path {
        self.0.path()
    }

    /// Writes zeros until it has no room.
    pub fn fill(&self) {
        let mut file = File::create(self.ballast()).expect("write to the small disk");
        let zeros = vec![0; 1024 * 1024];
        while file.write_all(&zeros).is_ok() {}
    }

    /// Removes what filled it.
    pub fn clear(&self) {
        fs::remove_file(self.ballast()).expect("make room on the small disk");
    }

    fn ballast(&self) -> PathBuf {
        self.place().join("ballast")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a process of the server may still end.
        let mut unmount = Command::new("umount");
        _ = succeed(unmount.arg("--lazy").arg(self.place()));
    }
}
