//! The gates: programs of node, run over the dashboards.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::stage::Life;
use super::{catalogue, files};
use crate::cargo::typed;
use crate::error::{During, Error, Result};
use crate::interrupt::Interrupt;

/// What the packages of node are installed from.
const MANIFESTS: [&str; 2] = ["package.json", "package-lock.json"];

/// How long the screen of whoever is on call may take.
const SCREEN: Duration = Duration::from_secs(20);

/// The gates, with the packages that the quick ones need.
#[derive(Debug)]
pub(crate) struct Gates<'a> {
    interrupt: &'a Interrupt,
    dashboards: Vec<PathBuf>,
    /// A copy of `grafana/`, so that nothing is installed beside the sources.
    copy: PathBuf,
    schemas: PathBuf,
}

impl<'a> Gates<'a> {
    /// Copies the gates below `target` and installs what the quick ones need.
    pub(crate) fn ready(root: &Path, interrupt: &'a Interrupt) -> Result<Gates<'a>> {
        let place = root.join("target/grafana");
        let gates = Gates {
            interrupt,
            dashboards: files(root),
            copy: place.join("gates"),
            schemas: place.join("schemas"),
        };
        for folder in ["check", "render", "source"] {
            copy_files(&root.join("grafana").join(folder), &gates.copy.join(folder))?;
        }
        let list = gates.catalogue();
        fs::write(&list, catalogue::as_json().to_string())
            .during(|| format!("cannot write {}", list.display()))?;
        gates.install("check")?;
        Ok(gates)
    }

    /// The gates that need no server: what the source makes is what is there, schema, units, lint.
    pub(crate) fn check_files(&self) -> Result<()> {
        let folder = self.dashboards.first().and_then(|file| file.parent());
        let mut written = self.node("source/write.mjs");
        written.arg("--check").args(folder);
        self.run(&mut written)?;
        let mut gate = self.node("check/gate.mjs");
        gate.arg("--catalogue").arg(self.catalogue());
        gate.arg("--schemas").arg(&self.schemas);
        self.run(gate.args(&self.dashboards))
    }

    /// Installs what draws.
    pub(crate) fn prepare_drawing(&self) -> Result<()> {
        self.install("render")
    }

    /// Whether everything happened that there is a number for.
    pub(crate) fn check_scenes(&self, life: &Life) -> Result<()> {
        let mut gate = self.node("check/moved.mjs");
        gate.arg("--catalogue").arg(self.catalogue());
        life.tell(&mut gate);
        self.run(&mut gate)
    }

    /// Whether every query of every panel has data.
    pub(crate) fn check_queries(&self, life: &Life) -> Result<()> {
        let mut gate = self.node("check/query.mjs");
        life.tell(&mut gate);
        self.run(gate.args(&self.dashboards))
    }

    /// Draws every panel.
    pub(crate) fn draw(&self, life: &Life, modes: &[&str], pictures: &Path) -> Result<()> {
        let mut gate = self.node("render/render.mjs");
        life.tell(&mut gate);
        gate.arg("--out").arg(pictures);
        for mode in modes {
            gate.args(["--mode", mode]);
        }
        self.run(gate.args(&self.dashboards))
    }

    /// Draws the screen of whoever is on call, as a terminal shows it.
    pub(crate) fn draw_screen(&self, life: &Life, pictures: &Path) -> Result<()> {
        let mut screen = Command::new(&life.programs.redrive);
        screen.arg("dlq").env("DATABASE_URL", &life.url);
        screen.env("CLICOLOR_FORCE", "1").env_remove("NO_COLOR");
        let shown = self
            .interrupt
            .output(&mut screen, SCREEN)?
            .filter(|output| output.status.success())
            .ok_or_else(|| Error::new("`redrive dlq` shows no screen"))?;
        let text = self.copy.join("on-call.txt");
        fs::write(&text, shown.stdout).during(|| format!("cannot write {}", text.display()))?;
        let mut gate = self.node("render/terminal.mjs");
        gate.arg("--text").arg(text);
        gate.args(["--title", "redrive dlq", "--out"]);
        self.run(gate.arg(pictures.join("on-call.png")))
    }

    fn catalogue(&self) -> PathBuf {
        self.copy.join("catalogue.json")
    }

    fn node(&self, program: &str) -> Command {
        let mut node = Command::new("node");
        node.arg(self.copy.join(program));
        node
    }

    /// Installs the packages of a folder, when they are not there as its lock file has them.
    fn install(&self, folder: &str) -> Result<()> {
        let folder = self.copy.join(folder);
        let lock = folder.join("package-lock.json");
        let stamp = folder.join("node_modules/.installed");
        let wanted = fs::read(&lock).during(|| format!("cannot read {}", lock.display()))?;
        if fs::read(&stamp).is_ok_and(|installed| installed == wanted) {
            return Ok(());
        }
        let mut npm = Command::new("npm");
        npm.args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]);
        npm.args(["--loglevel=error"]).current_dir(&folder);
        npm.env("npm_config_cache", self.copy.join("npm"));
        self.run(&mut npm)?;
        fs::write(&stamp, wanted).during(|| format!("cannot write {}", stamp.display()))
    }

    fn run(&self, command: &mut Command) -> Result<()> {
        let status = self.interrupt.run(command)?;
        if status.success() {
            return Ok(());
        }
        Err(Error::new(format!(
            "`{}` ended with {status}",
            typed(command)
        )))
    }
}

/// Copies the files of a folder, but not its folders, and not a manifest that is the same:
/// installed packages stay.
fn copy_files(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).during(|| format!("cannot make {}", to.display()))?;
    let entries = fs::read_dir(from).during(|| format!("cannot read {}", from.display()))?;
    for entry in entries {
        let entry = entry.during(|| format!("cannot read {}", from.display()))?;
        let (path, copy) = (entry.path(), to.join(entry.file_name()));
        let is_manifest = MANIFESTS.iter().any(|name| entry.file_name() == *name);
        let is_same = is_manifest && fs::read(&copy).ok() == fs::read(&path).ok();
        if path.is_file() && !is_same {
            fs::copy(&path, &copy).during(|| format!("cannot copy {}", path.display()))?;
        }
    }
    Ok(())
}
