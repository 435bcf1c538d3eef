//! A Prometheus server that scrapes one exporter and evaluates the alerts of this repository.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::cargo::{Artifacts, workspace};
use crate::child::ChildGuard;
use crate::interrupt::Interrupt;
use crate::programs::PROMETHEUS;

/// How long a server may take to answer its first request.
const START: Duration = Duration::from_mins(1);
/// How long one request may take.
const REQUEST: Duration = Duration::from_secs(10);

/// How often Prometheus scrapes and evaluates rules, in seconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Intervals {
    pub(crate) scrape: u64,
    pub(crate) evaluation: u64,
}

/// Starts Prometheus on `address` and waits until it is ready. Its files go to `folder`.
pub(crate) fn start(
    exporter: &str,
    address: &str,
    intervals: Intervals,
    folder: &Path,
    interrupt: &Interrupt,
) -> Result<ChildGuard> {
    let program = PROMETHEUS.find(interrupt)?;
    let file = folder.join("prometheus.yml");
    let rules = workspace()?.join("alerts/redrive.rules.yml");
    let text = configuration(exporter, &rules, intervals);
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    let log = folder.join("prometheus.log");
    let output = File::create(&log).with_context(|| format!("cannot write {}", log.display()))?;
    let mut server = ChildGuard::start(
        Command::new(program)
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                folder.join("tsdb").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(output),
    )?;
    wait_until_ready(&mut server, address, interrupt)
        .with_context(|| format!("Prometheus did not start; see {}", log.display()))?;
    Ok(server)
}

/// Starts the exporter of a database on `address` and waits until it is ready.
pub(crate) fn start_exporter(
    programs: &Artifacts,
    url: &str,
    address: &str,
    interrupt: &Interrupt,
) -> Result<ChildGuard> {
    let mut exporter = ChildGuard::start(
        Command::new(programs.executable("redrive-exporter")?)
            .args(["--web.listen-address", address, "--log-level", "error"])
            .env("DATABASE_URL", url),
    )?;
    wait_until_ready(&mut exporter, address, interrupt)?;
    Ok(exporter)
}

/// Waits until a server answers `/-/ready` with 200.
fn wait_until_ready(server: &mut ChildGuard, address: &str, interrupt: &Interrupt) -> Result<()> {
    interrupt
        .wait_for(START, || {
            if let Some(status) = server.status()? {
                bail!("the server at {address} ended with {status}");
            }
            Ok(get(address, "/-/ready").ok())
        })?
        .with_context(|| format!("no answer from http://{address}/-/ready"))
        .map(drop)
}

/// Fetches a page over HTTP.
pub(crate) fn get(address: &str, path: &str) -> Result<String, ureq::Error> {
    ureq::get(format!("http://{address}{path}"))
        .config()
        .timeout_global(Some(REQUEST))
        .build()
        .call()?
        .body_mut()
        .read_to_string()
}

/// Returns `usual` if it is free, otherwise a free address of 127.0.0.1.
pub(crate) fn free_address(usual: &str) -> Result<String> {
    TcpListener::bind(usual)
        .or_else(|_| TcpListener::bind("127.0.0.1:0"))
        .and_then(|listener| listener.local_addr())
        .map(|address| address.to_string())
        .context("cannot find a free port on 127.0.0.1")
}

fn configuration(exporter: &str, rules: &Path, intervals: Intervals) -> String {
    let Intervals { scrape, evaluation } = intervals;
    format!(
        "global:\n  scrape_interval: {scrape}s\n  scrape_timeout: {scrape}s\n  \
         evaluation_interval: {evaluation}s\nrule_files:\n  - '{}'\n\
         scrape_configs:\n  - job_name: redrive\n    static_configs:\n      \
         - targets: ['{exporter}']\n",
        rules.display()
    )
}
