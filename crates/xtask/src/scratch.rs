//! The folder for the servers that a test run throws away.
//!
//! Each test creates and drops a database of several hundred files. On ext4, a third of the suite's
//! time went into finding free inodes, because ext4 does not reuse those of files that were deleted
//! in the last seconds.

use std::env;
use std::path::{Path, PathBuf};

use nix::sys::statvfs::statvfs;

/// Where Linux keeps files in memory.
const MEMORY: &str = "/dev/shm";
/// How much must be free there, in bytes. A whole run was seen to use up to a sixth of it at a time.
const NEEDED: u64 = 4 << 30;

/// Returns the user's `TMPDIR`; without one, the folder in memory if it is large enough; otherwise
/// the usual folder for temporary files.
pub(crate) fn folder() -> PathBuf {
    let memory = Path::new(MEMORY);
    if env::var_os("TMPDIR").is_none() && free_bytes(memory).is_some_and(|free| free >= NEEDED) {
        memory.to_owned()
    } else {
        env::temp_dir()
    }
}

/// Returns how much the caller may write below a folder, or `None` if there is no such folder.
fn free_bytes(folder: &Path) -> Option<u64> {
    let stat = statvfs(folder).ok()?;
    Some(stat.blocks_available() * stat.fragment_size())
}
