//! The numbers of the evening: the exporter beside the demo's database, and with `--watch` a
//! Prometheus beside the exporter.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use super::programs::Shop;
use super::screen::Screen;
use crate::cargo::workspace;
use crate::error::{During, Error, Result};
use crate::interrupt::{Interrupt, Running};
use crate::prometheus::PROMETHEUS;

/// How long a program may take to begin to serve.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long one answer may take.
const ANSWER: Duration = Duration::from_secs(10);
/// Where the exporter listens, if that is free: its own default.
const USUAL: &str = "127.0.0.1:9898";
/// Where Prometheus listens, if that is free: its own default.
const USUAL_OF_PROMETHEUS: &str = "127.0.0.1:9090";
/// What is shown of the first scrape: whether the database answers, what died and what of it waits.
const TELLING: [&str; 3] = [
    "redrive_up",
    "redrive_jobs_dead_lettered_total{",
    "redrive_dlq_letters{",
];

/// The exporter, running beside the database of the demo. It ends when dropped.
#[derive(Debug)]
pub(super) struct Numbers {
    exporter: Running,
    address: String,
}

impl Numbers {
    /// Starts the exporter and shows three lines of its first scrape.
    pub(super) fn of(
        shop: Shop<'_>,
        screen: &mut Screen,
        interrupt: &Interrupt,
    ) -> Result<Numbers> {
        let address = free(USUAL)?;
        let log = log_beside(shop.log(), "exporter.log")?;
        let mut command = Command::new(shop.exporter());
        command
            .args(["--web.listen-address", &address])
            .env("DATABASE_URL", shop.url())
            .stdout(Stdio::null())
            .stderr(log);
        let exporter = Running::start(&mut command)?;
        let mut numbers = Numbers { exporter, address };
        screen.scene("     ", "The numbers");
        screen.command(&format!(
            "redrive-exporter --web.listen-address {}",
            numbers.address
        ));
        let page = numbers.first_scrape(interrupt)?;
        for line in telling(&page, shop.queue()) {
            screen.say(line);
        }
        let others = series(&page).count().saturating_sub(TELLING.len());
        screen.say(format!("and {others} more series at {}", numbers.url()));
        Ok(numbers)
    }

    /// Where it is scraped.
    pub(super) fn url(&self) -> String {
        format!("http://{}/metrics", self.address)
    }

    /// Runs a Prometheus on it until Ctrl-C.
    pub(super) fn watch(
        mut self,
        place: &Path,
        screen: &mut Screen,
        interrupt: &Interrupt,
    ) -> Result<()> {
        let program = PROMETHEUS.find(interrupt)?;
        let address = free(USUAL_OF_PROMETHEUS)?;
        let rules = rules()?;
        let file = place.join("prometheus.yml");
        fs::write(&file, configuration(&self.address, rules.as_deref()))
            .during(|| format!("cannot write {}", file.display()))?;
        let mut command = Command::new(program);
        command
            .arg(format!("--config.file={}", file.display()))
            .arg(format!(
                "--storage.tsdb.path={}",
                place.join("tsdb").display()
            ))
            .arg(format!("--web.listen-address={address}"))
            .stdout(Stdio::null())
            .stderr(log_beside(&file, "prometheus.log")?);
        let mut server = Running::start(&mut command)?;
        let ready = interrupt.wait_for(PATIENCE, || {
            alive(&mut server, "Prometheus", &place.join("prometheus.log"))?;
            Ok(get(&address, "/-/ready")
                .ok()
                .filter(|(status, _)| *status == 200))
        })?;
        if ready.is_none() {
            return Err(Error::new("Prometheus did not begin to serve"));
        }
        screen.scene("     ", "A Prometheus looks at it");
        screen.say(format!(
            "http://{address}/graph?g0.expr=redrive_dlq_letters&g0.tab=0&g0.range_input=15m"
        ));
        match &rules {
            Some(_) => screen.say(format!("http://{address}/alerts")),
            None => screen.say("There are no rules in alerts/ to load."),
        }
        screen.say("Ctrl-C ends it.");
        loop {
            alive(&mut server, "Prometheus", &place.join("prometheus.log"))?;
            alive(
                &mut self.exporter,
                "the exporter",
                &place.join("exporter.log"),
            )?;
            if interrupt
                .wait_for(Duration::from_secs(1), || Ok(None::<()>))
                .is_err()
            {
                // Asked to end: that is how a look ends well.
                return Ok(());
            }
        }
    }

    fn first_scrape(&mut self, interrupt: &Interrupt) -> Result<String> {
        let address = self.address.clone();
        let page = interrupt.wait_for(PATIENCE, || {
            if let Some(status) = self.exporter.status()? {
                return Err(Error::new(format!(
                    "the exporter ended by itself: {status}"
                )));
            }
            let page = get(&address, "/metrics").ok().map(|(_, page)| page);
            Ok(page.filter(|page| page.lines().any(|line| line == "redrive_up 1")))
        })?;
        page.ok_or_else(|| {
            Error::new(format!(
                "the exporter at {address} did not see the database within {} s",
                PATIENCE.as_secs()
            ))
        })
    }
}

/// The lines that tell most, of the queue of the demo; first those that are not zero.
fn telling(page: &str, queue: &str) -> Vec<String> {
    let queue = format!("queue=\"{queue}\"");
    TELLING
        .iter()
        .filter_map(|name| {
            let is_of_it = |line: &&str| {
                line.starts_with(name) && (!name.ends_with('{') || line.contains(&queue))
            };
            let is_zero = |line: &&str| line.ends_with(" 0");
            series(page).filter(is_of_it).min_by_key(is_zero)
        })
        .map(ToOwned::to_owned)
        .collect()
}

fn series(page: &str) -> impl Iterator<Item = &str> {
    page.lines().filter(|line| !line.starts_with('#'))
}

/// What Prometheus is told: the exporter, every two seconds, by the name that the rules know.
fn configuration(target: &str, rules: Option<&Path>) -> String {
    let rules = rules.map_or(String::new(), |rules| {
        format!("rule_files:\n  - '{}'\n", rules.display())
    });
    format!(
        "global:\n  scrape_interval: 2s\n  scrape_timeout: 2s\n  evaluation_interval: 2s\n{rules}\
         scrape_configs:\n  - job_name: redrive\n    static_configs:\n      - targets: ['{target}']\n"
    )
}

/// The rules of the alerts, when the repository has them.
fn rules() -> Result<Option<PathBuf>> {
    let file = workspace()?.join("alerts").join("redrive.rules.yml");
    Ok(file.is_file().then_some(file))
}

/// The usual address when nobody listens there, else one that the system chooses.
fn free(usual: &str) -> Result<String> {
    let bound = std::net::TcpListener::bind(usual)
        .or_else(|_| std::net::TcpListener::bind("127.0.0.1:0"))
        .and_then(|listener| listener.local_addr());
    bound
        .map(|address| address.to_string())
        .during(|| "cannot find a free port on 127.0.0.1")
}

fn log_beside(file: &Path, name: &str) -> Result<File> {
    let log = file.with_file_name(name);
    File::create(&log).during(|| format!("cannot write {}", log.display()))
}

fn alive(program: &mut Running, name: &str, log: &Path) -> Result<()> {
    match program.status()? {
        None => Ok(()),
        Some(status) => {
            let log = fs::read_to_string(log).unwrap_or_default();
            let words = log.lines().last().unwrap_or_default();
            Err(Error::new(format!(
                "{name} ended by itself: {status}\n    {words}"
            )))
        }
    }
}

/// Asks for a page; answers its status and what is on it.
fn get(address: &str, path: &str) -> std::io::Result<(u16, String)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER))?;
    stream.set_write_timeout(Some(ANSWER))?;
    write!(stream, "GET {path} HTTP/1.0\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let status = answer
        .split(' ')
        .nth(1)
        .and_then(|status| status.parse().ok());
    let page = answer.split_once("\r\n\r\n").map_or("", |(_, page)| page);
    Ok((status.unwrap_or(0), page.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_that_tell_most_are_those_of_the_queue() {
        let page = "# HELP redrive_up x\nredrive_up 1\n\
                    redrive_dlq_letters{queue=\"other\",state=\"open\"} 9\n\
                    redrive_dlq_letters{queue=\"orders\",state=\"discarded\"} 0\n\
                    redrive_dlq_letters{queue=\"orders\",state=\"open\"} 7\n";
        let told = telling(page, "orders");
        assert_eq!(
            told,
            [
                "redrive_up 1",
                "redrive_dlq_letters{queue=\"orders\",state=\"open\"} 7"
            ]
        );
    }

    #[test]
    fn the_configuration_names_the_job_as_the_rules_do() {
        let text = configuration("127.0.0.1:1", Some(Path::new("a/redrive.rules.yml")));
        assert!(text.contains("job_name: redrive\n"), "{text}");
        assert!(text.contains("  - 'a/redrive.rules.yml'\n"), "{text}");
        assert!(!configuration("127.0.0.1:1", None).contains("rule_files"));
    }
}
