//! Files of a test.

use std::fmt::{self, Display, Formatter};
use std::path::PathBuf;

use uuid::Uuid;

/// Returns the text of a file of the repository, by its path there.
#[track_caller]
pub fn committed(path: &str) -> String {
    let file = format!("{}/../{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(file).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A file, removed at the end of the test. It displays as its path.
#[derive(Debug)]
pub struct TempFile(PathBuf);

impl TempFile {
    /// Writes a file.
    pub fn of(content: impl AsRef<[u8]>) -> TempFile {
        let name = format!("redrive-{}", Uuid::new_v4().simple());
        let file = TempFile(std::env::temp_dir().join(name));
        file.set(content);
        file
    }

    /// Replaces the content.
    pub fn set(&self, content: impl AsRef<[u8]>) {
        std::fs::write(&self.0, content).expect("write a file for the test");
    }

    /// Returns the content.
    pub fn bytes(&self) -> Vec<u8> {
        std::fs::read(&self.0).expect("read a file of the test")
    }

    /// Removes the file.
    pub fn remove(&self) {
        std::fs::remove_file(&self.0).expect("remove a file of the test");
    }
}

impl Display for TempFile {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.0.display().fmt(f)
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        // The test may have removed it.
        _ = std::fs::remove_file(&self.0);
    }
}
