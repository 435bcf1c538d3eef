//! The stage: a PostgreSQL, the exporter, a Prometheus that scrapes it; and what was lived on it.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde_json::Value;
use tempfile::TempDir;

use super::acts;
use crate::cargo::{cargo, typed};
use crate::cluster::{Cluster, Durability};
use crate::error::{During, Error, Result};
use crate::interrupt::{Interrupt, Running};
use crate::postgres::Binaries;
use crate::prometheus::PROMETHEUS;

/// How often Prometheus scrapes, in seconds: often, so that a minute has many samples.
const SCRAPE: u64 = 1;
/// How long a server may take to answer for the first time.
const PATIENCE: Duration = Duration::from_mins(1);
/// How long a server may take to stop.
const GRACE: Duration = Duration::from_secs(15);

/// The programs, and what they run on.
#[derive(Debug)]
pub(crate) struct Stage<'a> {
    interrupt: &'a Interrupt,
    programs: Programs,
    place: TempDir,
    url: String,
    exporter_port: u16,
    prometheus_port: u16,
    exporter: Running,
    prometheus: Running,
    // Dropped last: the others have connections to it.
    cluster: Cluster,
}

/// What was lived: the servers are still there to be asked.
#[derive(Debug)]
pub(crate) struct Life {
    /// The database, as superuser.
    pub(crate) url: String,
    /// The programs.
    pub(crate) programs: Programs,
    prometheus_port: u16,
    from: u64,
    to: u64,
    _prometheus: Running,
    _place: TempDir,
    _cluster: Cluster,
}

/// The built programs.
#[derive(Clone, Debug)]
pub(crate) struct Programs {
    /// The command line.
    pub(crate) redrive: PathBuf,
    /// The exporter.
    pub(crate) exporter: PathBuf,
}

impl<'a> Stage<'a> {
    /// Starts everything.
    pub(crate) fn set(root: &Path, interrupt: &'a Interrupt) -> Result<Stage<'a>> {
        let programs = Programs::build(root, interrupt)?;
        let program = PROMETHEUS.find(interrupt)?;
        let place = tempfile::tempdir().during(|| "cannot make a temporary folder")?;
        let binaries = Binaries::find(interrupt)?;
        let cluster = Cluster::start(&binaries, Durability::Throwaway, interrupt)?;
        let url = cluster.create_database("shop")?;
        acts::prepare(&url)?;
        let (exporter_port, prometheus_port) = (free_port()?, free_port()?);
        let exporter = start_exporter(&programs, &url, exporter_port)?;
        wait_for(interrupt, exporter_port, "/-/ready")?;
        let prometheus = start_prometheus(
            &program,
            place.path(),
            root,
            [exporter_port, prometheus_port],
        )?;
        wait_for(interrupt, prometheus_port, "/-/ready")?;
        Ok(Stage {
            interrupt,
            programs,
            place,
            url,
            exporter_port,
            prometheus_port,
            exporter,
            prometheus,
            cluster,
        })
    }

    /// Plays all scenes, while `meanwhile` runs beside them.
    pub(crate) fn live(
        mut self,
        breath: Duration,
        meanwhile: impl FnOnce() -> Result<()> + Send,
    ) -> Result<Life> {
        let from = now();
        let (programs, url, port) = (self.programs.clone(), self.url.clone(), self.exporter_port);
        std::thread::scope(|scope| {
            let beside = scope.spawn(meanwhile);
            let exporter = &mut self.exporter;
            let interrupt = self.interrupt;
            let played = acts::play(&self.url, &programs, interrupt, breath, &mut || {
                // It is replaced as in a deployment; its series go on.
                exporter.stop(interrupt, GRACE)?;
                *exporter = start_exporter(&programs, &url, port)?;
                wait_for(interrupt, port, "/-/ready")
            });
            let prepared = beside
                .join()
                .unwrap_or_else(|_| Err(Error::new("what was to run beside the scenes panicked")));
            played.and(prepared)
        })?;
        let to = now();
        Ok(Life {
            url: self.url,
            programs: self.programs,
            prometheus_port: self.prometheus_port,
            from,
            to,
            _prometheus: self.prometheus,
            _place: self.place,
            _cluster: self.cluster,
        })
    }
}

impl Life {
    /// Tells a gate whom to ask, and about which time.
    pub(crate) fn tell(&self, gate: &mut Command) {
        let url = format!("http://127.0.0.1:{}", self.prometheus_port);
        gate.args(["--prometheus", &url]);
        gate.args(["--from", &self.from.to_string()]);
        gate.args(["--to", &self.to.to_string()]);
        gate.args(["--scrape", &SCRAPE.to_string()]);
    }
}

impl Programs {
    /// Builds them in the profile that this program was built in.
    fn build(root: &Path, interrupt: &Interrupt) -> Result<Programs> {
        let mut build = cargo([
            "build",
            "--package=redrive-cli",
            "--package=redrive-exporter",
        ]);
        build.args([
            "--bins",
            "--quiet",
            "--message-format=json-render-diagnostics",
        ]);
        if !cfg!(debug_assertions) {
            build.arg("--release");
        }
        build.current_dir(root);
        println!("    $ {}", typed(&build));
        let told = interrupt
            .output(&mut build, Duration::from_mins(15))?
            .filter(|output| output.status.success())
            .map(|output| String::from_utf8_lossy(&output.stdout).into_owned())
            .ok_or_else(|| Error::new(format!("`{}` failed", typed(&build))))?;
        let find = |name: &str| {
            told.lines()
                .filter_map(|line| serde_json::from_str::<Value>(line).ok())
                .filter(|message| message["target"]["name"] == name)
                .find_map(|message| Some(PathBuf::from(message["executable"].as_str()?)))
                .ok_or_else(|| Error::new(format!("`{}` built no `{name}`", typed(&build))))
        };
        Ok(Programs {
            redrive: find("redrive")?,
            exporter: find("redrive-exporter")?,
        })
    }
}

fn start_exporter(programs: &Programs, url: &str, port: u16) -> Result<Running> {
    Running::start(
        Command::new(&programs.exporter)
            .args(["--web.listen-address", &format!("127.0.0.1:{port}")])
            .args(["--log-level", "error"])
            .env("DATABASE_URL", url),
    )
}

/// A Prometheus that scrapes the exporter and knows the alerts.
fn start_prometheus(
    program: &Path,
    place: &Path,
    root: &Path,
    [exporter, port]: [u16; 2],
) -> Result<Running> {
    let rules = root.join("alerts/redrive.rules.yml");
    let rule_files = if rules.exists() {
        format!("rule_files: ['{}']\n", rules.display())
    } else {
        String::new()
    };
    let configuration = place.join("prometheus.yml");
    let text = format!(
        "global:\n  scrape_interval: {SCRAPE}s\n  scrape_timeout: {SCRAPE}s\n  evaluation_interval: 5s\n\
         {rule_files}scrape_configs:\n  - job_name: redrive\n    static_configs:\n      \
         - targets: ['127.0.0.1:{exporter}']\n"
    );
    fs::write(&configuration, text)
        .during(|| format!("cannot write {}", configuration.display()))?;
    Running::start(
        Command::new(program)
            .arg(format!("--config.file={}", configuration.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                place.join("data").display()
            ))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .arg("--log.level=error")
            .stdout(Stdio::null()),
    )
}

/// Waits until a page answers 200.
fn wait_for(interrupt: &Interrupt, port: u16, page: &str) -> Result<()> {
    interrupt
        .wait_for(PATIENCE, || Ok(is_there(port, page).then_some(())))?
        .ok_or_else(|| Error::new(format!("nobody answers http://127.0.0.1:{port}{page}")))
}

fn is_there(port: u16, page: &str) -> bool {
    use std::io::{Read as _, Write as _};
    use std::net::TcpStream;
    let ask = || -> std::io::Result<bool> {
        let mut stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        write!(
            stream,
            "GET {page} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        )?;
        let mut answer = [0; 12];
        stream.read_exact(&mut answer)?;
        Ok(answer.ends_with(b" 200"))
    };
    ask().unwrap_or(false)
}

fn free_port() -> Result<u16> {
    TcpListener::bind("127.0.0.1:0")
        .and_then(|listener| listener.local_addr())
        .map(|address| address.port())
        .during(|| "cannot find a free port on 127.0.0.1")
}

fn now() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default()
        .as_secs()
}
