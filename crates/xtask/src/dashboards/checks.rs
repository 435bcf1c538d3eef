//! The checks: Node programs, run on the dashboards.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};

use super::environment::Environment;
use super::{Drawing, files};
use crate::alerts::rules::RULES;
use crate::alerts::yaml;
use crate::interrupt::Interrupt;
use crate::node_packages;
use crate::programs::NODE;

/// How long `redrive dlq` may take.
const SCREEN: Duration = Duration::from_secs(20);

/// The checks, with their Node packages installed.
#[derive(Debug)]
pub(crate) struct Checks<'a> {
    interrupt: &'a Interrupt,
    node: PathBuf,
    dashboards: Vec<PathBuf>,
    /// The reference of the metrics, which is generated from the catalogue.
    metrics_page: PathBuf,
    /// A copy of `grafana/`, so that nothing is installed next to the sources.
    copy: PathBuf,
    schemas: PathBuf,
}

impl<'a> Checks<'a> {
    /// Copies the checks below `target` and installs their packages.
    pub(crate) fn prepare(root: &Path, interrupt: &'a Interrupt) -> Result<Checks<'a>> {
        let target = root.join("target/grafana");
        let checks = Checks {
            interrupt,
            node: NODE.find(interrupt)?,
            dashboards: files(root),
            metrics_page: root.join("crates/redrive-exporter/METRICS.md"),
            copy: target.join("gates"),
            schemas: target.join("schemas"),
        };
        for folder in ["check", "render", "source"] {
            node_packages::copy_files(
                &root.join("grafana").join(folder),
                &checks.copy.join(folder),
            )?;
        }
        let (rules, list) = (yaml::read(&root.join(RULES))?, checks.rules());
        fs::write(&list, rules.to_string())
            .with_context(|| format!("cannot write {}", list.display()))?;
        checks.install("check")?;
        Ok(checks)
    }

    /// Writes the dashboards from their source, which needs no packages.
    pub(crate) fn write(root: &Path, interrupt: &Interrupt) -> Result<()> {
        let mut write = Command::new(NODE.find(interrupt)?);
        interrupt.succeed(write.arg(root.join("grafana/source/write.mjs")))
    }

    /// Checks that the dashboards are what their source writes.
    pub(crate) fn check_written(&self) -> Result<()> {
        let folder = self.dashboards.first().and_then(|file| file.parent());
        let mut generated = self.node("source/write.mjs");
        generated.arg("--check").args(folder);
        self.interrupt.succeed(&mut generated)
    }

    /// Checks the files alone: schema, units and lint, also of the alert rules.
    pub(crate) fn check_files(&self) -> Result<()> {
        let mut check = self.node("check/gate.mjs");
        check.arg("--metrics").arg(&self.metrics_page);
        check.arg("--rules").arg(self.rules());
        check.arg("--schemas").arg(&self.schemas);
        self.interrupt.succeed(check.args(&self.dashboards))
    }

    /// Installs the packages for drawing.
    pub(crate) fn prepare_drawing(&self) -> Result<()> {
        self.install("render")
    }

    /// Checks that the scenarios changed every metric of the catalogue.
    pub(crate) fn check_metrics(&self, recorded: &Environment<'_>) -> Result<()> {
        let mut check = self.node("check/moved.mjs");
        check.arg("--metrics").arg(&self.metrics_page);
        recorded.describe(&mut check);
        self.interrupt.succeed(&mut check)
    }

    /// Checks that every query of every panel returns data.
    pub(crate) fn check_queries(&self, recorded: &Environment<'_>) -> Result<()> {
        let mut check = self.node("check/query.mjs");
        recorded.describe(&mut check);
        self.interrupt.succeed(check.args(&self.dashboards))
    }

    /// Draws every panel.
    pub(crate) fn draw(&self, recorded: &Environment<'_>, drawing: &Drawing<'_>) -> Result<()> {
        let mut draw = self.node("render/render.mjs");
        recorded.describe(&mut draw);
        draw.arg("--out").arg(&drawing.folder);
        for theme in drawing.themes {
            draw.args(["--mode", theme]);
        }
        self.interrupt.succeed(draw.args(&self.dashboards))
    }

    /// Draws the output of `redrive dlq` as a terminal shows it.
    pub(crate) fn draw_on_call_screen(
        &self,
        recorded: &Environment<'_>,
        drawing: &Drawing<'_>,
    ) -> Result<()> {
        let mut screen = Command::new(recorded.programs.executable("redrive")?);
        screen.arg("dlq").env("DATABASE_URL", &recorded.url);
        screen.env("CLICOLOR_FORCE", "1").env_remove("NO_COLOR");
        let screen = self.interrupt.stdout(&mut screen, SCREEN)?;
        let text = self.copy.join("on-call.txt");
        fs::write(&text, screen).with_context(|| format!("cannot write {}", text.display()))?;
        let mut draw = self.node("render/terminal.mjs");
        draw.arg("--text").arg(text);
        draw.args(["--title", "redrive dlq", "--out"]);
        self.interrupt
            .succeed(draw.arg(drawing.folder.join("on-call.png")))
    }

    /// The alert rules as JSON.
    fn rules(&self) -> PathBuf {
        self.copy.join("rules.json")
    }

    fn node(&self, program: &str) -> Command {
        let mut node = Command::new(&self.node);
        node.arg(self.copy.join(program));
        node
    }

    fn install(&self, folder: &str) -> Result<()> {
        let cache = self.copy.join("npm");
        node_packages::install(&self.copy.join(folder), &cache, self.interrupt)
    }
}
