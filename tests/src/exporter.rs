//! The exporter as a process, scraped over the network.

use std::fs;
use std::io::{BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Command, ExitStatus};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::at_once::at_once;
use crate::process::Process;
use crate::wait::SOON;

/// A running exporter; killed when dropped.
#[derive(Debug)]
pub struct Exporter {
    process: Process,
    address: String,
    log: Arc<Mutex<String>>,
}

/// A response.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The status code.
    pub status: u16,
    /// The headers as received.
    pub head: String,
    /// The body.
    pub text: String,
}

/// The delay that an overloaded machine may add.
const NOISE: Duration = Duration::from_secs(10);

impl Asked {
    /// Returns the value of a series of the metrics page, such as `redrive_up`.
    pub fn value(&self, series: &str) -> Option<f64> {
        self.text.lines().find_map(|line| {
            let (name, value) = line.rsplit_once(' ')?;
            (name == series).then(|| value.parse().expect("a number"))
        })
    }

    /// Whether the database answered this scrape.
    pub fn is_up(&self) -> bool {
        self.value("redrive_up") == Some(1.0)
    }
}

impl Exporter {
    /// Starts the program on a free port, on the database of this URL.
    pub fn start(program: &str, url: &str) -> Exporter {
        let mut command = Command::new(program);
        command.env("DATABASE_URL", url);
        Exporter::of(command)
    }

    /// Starts a prepared command with an address added.
    pub fn of(mut command: Command) -> Exporter {
        let mut process = Process::start(command.args(["--web.listen-address", "127.0.0.1:0"]));
        let child = process.child();
        let log = Arc::new(Mutex::new(String::new()));
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        thread::spawn({
            let log = Arc::clone(&log);
            move || {
                for line in stderr.lines().map_while(Result::ok) {
                    log.lock().expect("the log").push_str(&(line + "\n"));
                }
            }
        });
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped"))
            .read_line(&mut line)
            .expect("it says where it listens");
        let address = line.trim().strip_prefix("listening on http://");
        let address = address.and_then(|rest| rest.split('/').next());
        let address =
            address.unwrap_or_else(|| panic!("{line:?}: {}", log.lock().expect("the log")));
        Exporter {
            process,
            address: address.to_owned(),
            log,
        }
    }

    /// Returns the address it listens on.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Returns the log so far.
    pub fn log(&self) -> String {
        self.log.lock().expect("the log").clone()
    }

    /// Opens a connection.
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).expect("it listens");
        stream.set_read_timeout(Some(SOON)).expect("a deadline");
        stream.set_write_timeout(Some(SOON)).expect("a deadline");
        stream
    }

    /// Requests a page.
    #[track_caller]
    pub fn get(&self, path: &str) -> Asked {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: exporter\r\n\r\n"))
    }

    /// Scrapes the metrics as Prometheus does, with a timeout in seconds.
    #[track_caller]
    pub fn scrape(&self, timeout: u32) -> Asked {
        let begin = Instant::now();
        let asked = self.ask(&format!(
            "GET /metrics HTTP/1.1\r\nHost: exporter\r\n\
             X-Prometheus-Scrape-Timeout-Seconds: {timeout}\r\n\r\n"
        ));
        let took = begin.elapsed();
        let limit = Duration::from_secs(timeout.into()) + NOISE;
        assert!(took < limit, "it took {took:?}");
        assert_eq!(asked.status, 200, "never an error page: {asked:?}");
        asked
    }

    /// Runs several scrapes concurrently.
    #[track_caller]
    pub fn scrapes(&self, count: usize, timeout: u32) -> Vec<Asked> {
        at_once(count, |_| (), |()| self.scrape(timeout))
    }

    /// Sends bytes and reads the response.
    #[track_caller]
    pub fn ask(&self, request: &str) -> Asked {
        let mut stream = self.connect();
        stream.write_all(request.as_bytes()).expect("it listens");
        let mut bytes = Vec::new();
        // The connection may be cut after the response.
        drop(stream.read_to_end(&mut bytes));
        let answer = String::from_utf8_lossy(&bytes).into_owned();
        let (head, text) = answer.split_once("\r\n\r\n").expect("an answer");
        let status = head.split(' ').nth(1).expect("a status");
        Asked {
            status: status.parse().expect("a number"),
            head: head.to_owned(),
            text: text.to_owned(),
        }
    }

    /// Sends a signal, as `INT`.
    pub fn signal(&self, name: &str) {
        self.process.signal(name);
    }

    /// Waits for the process to end.
    #[track_caller]
    pub fn ended(&mut self) -> ExitStatus {
        self.process.ends()
    }

    /// Returns the peak memory in megabytes.
    pub fn megabytes(&self) -> u64 {
        let status = self.proc("status");
        let line = status.lines().find(|line| line.starts_with("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().nth(1)?.parse::<u64>().ok());
        kilobytes.expect("a number") / 1024
    }

    /// Returns the number of threads with this name.
    pub fn threads(&self, name: &str) -> usize {
        fs::read_dir(format!("/proc/{}/task", self.process.id()))
            .expect("it runs")
            .flatten()
            .filter(|task| {
                let comm = fs::read_to_string(task.path().join("comm"));
                comm.is_ok_and(|comm| comm.trim() == name)
            })
            .count()
    }

    /// Returns the number of connections to a local port, as the kernel counts them.
    pub fn connections_to(&self, port: u16) -> usize {
        let sockets: Vec<String> = fs::read_dir(format!("/proc/{}/fd", self.process.id()))
            .expect("it runs")
            .flatten()
            .filter_map(|fd| fs::read_link(fd.path()).ok())
            .map(|target| target.to_string_lossy().into_owned())
            .collect();
        let remote = format!("0100007F:{port:04X}");
        self.proc("net/tcp")
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>())
            .filter(|fields| fields.len() > 9 && fields[2] == remote)
            .filter(|fields| sockets.contains(&format!("socket:[{}]", fields[9])))
            .count()
    }

    fn proc(&self, file: &str) -> String {
        fs::read_to_string(format!("/proc/{}/{file}", self.process.id())).expect("it runs")
    }
}
