//! `TestDatabase`: a server for a process, which is gone when the process is, however it ended.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::Child;

use postgres::Config;
use postgres::config::Host;
use redrive::testing::TestDatabase;
use redrive_tests::prelude::*;

/// A process with a server of its own, the URLs of its databases, and its folder.
struct Process {
    child: Child,
    urls: Vec<String>,
    folder: PathBuf,
}

/// The process, with the programs in this folder.
fn command(programs: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_test_database"));
    command.env_remove("REDRIVE_TEST_DATABASE_URL");
    command.env("REDRIVE_POSTGRES_BIN", programs);
    // Of another server.
    command.env("PGPORT", "1").env("PGDATA", "/nowhere");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    command
}

impl Process {
    fn start(arguments: &[&str]) -> Process {
        let mut shared = Client::connect(&server_url(), NoTls).unwrap();
        let asked = "SELECT setting FROM pg_config WHERE name = 'BINDIR'";
        let programs: String = shared.ask(asked, &[]);
        let mut command = command(&programs);
        let mut child = command.args(arguments).spawn().unwrap();
        let printed = BufReader::new(child.stdout.take().unwrap()).lines();
        let urls: Vec<String> = printed.take(4).map(Result::unwrap).collect();
        let config: Config = urls.first().expect("a server").parse().unwrap();
        let [Host::Unix(folder)] = config.get_hosts() else {
            panic!("{urls:?}");
        };
        let folder = folder.clone();
        Process {
            child,
            urls,
            folder,
        }
    }

    /// Waits until nothing of the server is left.
    fn has_gone(mut self) {
        self.child.wait().unwrap();
        wait_until("the server and its folder to go", SOON, || {
            !self.folder.exists()
        });
        let connected = Client::connect(&self.urls[0], NoTls);
        assert!(connected.is_err(), "the server runs");
    }
}

#[test]
fn tests_of_a_process_share_a_server_that_ends_with_a_killed_process() {
    let mut process = Process::start(&[]);
    let mut names = BTreeSet::new();
    for url in &process.urls {
        let mut client = Client::connect(url, NoTls).unwrap();
        redrive::connect(url).unwrap().check_schema().unwrap();
        client.sql("CREATE TABLE mine ()");
        let asked = "SELECT current_database()::text, inet_server_addr() IS NULL";
        let (name, has_no_port): (String, bool) = client.row(asked, &[]);
        assert!(has_no_port);
        names.insert(name);
    }
    assert_eq!(names.len(), 4, "one each");
    assert!(process.folder.exists());
    process.child.kill().unwrap();
    process.has_gone();
}

#[test]
fn the_server_ends_with_a_process_that_panics_or_returns() {
    for arguments in [&["panic"][..], &[]] {
        let mut process = Process::start(arguments);
        drop(process.child.stdin.take());
        let status = process.child.wait().unwrap();
        assert_eq!(status.success(), arguments.is_empty());
        process.has_gone();
    }
}

#[test]
fn a_machine_without_a_server_is_told_what_to_do() {
    let output = command("/nowhere").stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let expected = "no server is installed in the folder REDRIVE_POSTGRES_BIN";
    has(said, expected);
}

#[test]
fn a_given_server_is_used_and_keeps_no_database() {
    let test = TestDatabase::new().unwrap();
    let mut client = Client::connect(test.url(), NoTls).unwrap();
    let name: String = client.ask("SELECT current_database()::text", &[]);
    test.db().check_schema().unwrap();
    let of_name = format!("SELECT count(*) FROM pg_database WHERE datname = '{name}'");
    let mut server = Client::connect(&server_url(), NoTls).unwrap();
    assert_eq!(scalar(&mut server, &of_name), 1);
    // Its session of `client` is ended.
    drop(test);
    assert_eq!(scalar(&mut server, &of_name), 0);
}
