//! The PostgreSQL server of a test process, which starts with its first test database and ends with the process.

use std::env;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};

use crate::error::{Error, Result};

/// The variable with the folder of PostgreSQL's programs. If set, no other place counts.
const FOLDER: &str = "REDRIVE_POSTGRES_BIN";

/// The folder in which Debian and Ubuntu keep one folder per major version.
const PACKAGED: &str = "/usr/lib/postgresql";

/// Ends the server and removes its folder when the input ends. Not with `pg_ctl`, which refuses to run as root.
const WATCH: &str = r#"
read -r _
file="$1/data/postmaster.pid"
if pid=$(head -n 1 "$file"); then
    kill -QUIT "$pid"
    while [ -e "$file" ] && kill -0 "$pid"; do sleep 0.1; done
fi
rm -rf "$1"
"#;

/// What makes a server fast whose data nobody needs, and keeps other users of the machine out.
const SETTINGS: &str = "fsync = off\nsynchronous_commit = off\nfull_page_writes = off\nmax_connections = 500\n\
                        listen_addresses = ''\n";

const INITDB: [&str; 6] = [
    "--username=postgres",
    "--auth=trust",
    "--encoding=UTF8",
    "--locale=C",
    "--no-sync",
    "--pgdata=data",
];
const PG_CTL: [&str; 5] = ["start", "--wait", "--silent", "--log=log", "--pgdata=data"];

/// A server that runs until this is dropped or the process ends.
#[derive(Debug)]
pub(super) struct Server {
    /// The URL of its database `postgres`.
    pub(super) url: String,
    /// A program whose input is a pipe of this process. The system closes it, also after SIGKILL.
    _watcher: Child,
}

impl Server {
    /// Starts a server on a socket in a new folder that only its account can enter.
    pub(super) fn start() -> Result<Server> {
        let folder = env::temp_dir().join(format!("redrive-{:016x}", fastrand::u64(..)));
        Server::start_in(&folder).map_err(|error| {
            let folder = folder.display();
            Error::refused(format!(
                "could not start a PostgreSQL server for tests in `{folder}`"
            ))
            .caused_by(error)
        })
    }

    fn start_in(folder: &Path) -> io::Result<Server> {
        let programs = programs()?;
        DirBuilder::new().mode(0o700).create(folder)?;
        let mut watcher = Command::new("sh");
        watcher.args(["-c", WATCH, "sh"]).arg(folder);
        // Ctrl-C in a terminal must not end it before the server.
        watcher.process_group(0).stdin(Stdio::piped());
        let watcher = watcher
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let account = account(folder)?;
        let run = |program, arguments: &[&str]| {
            let mut command = Command::new(programs.join(program));
            run(command.args(arguments).current_dir(folder), account)
        };
        run("initdb", &INITDB)?;
        let socket = folder.to_string_lossy();
        let settings = OpenOptions::new()
            .append(true)
            .open(folder.join("data/postgresql.conf"));
        let quoted = socket.replace('\'', "''");
        writeln!(settings?, "{SETTINGS}unix_socket_directories = '{quoted}'")?;
        run("pg_ctl", &PG_CTL).map_err(|error| {
            let log = fs::read_to_string(folder.join("log")).unwrap_or_default();
            io::Error::other(format!("{error}{log}"))
        })?;
        let host = utf8_percent_encode(&socket, NON_ALPHANUMERIC);
        Ok(Server {
            url: format!("postgres://postgres@{host}/postgres"),
            _watcher: watcher,
        })
    }
}

/// Runs a program of the server.
fn run(command: &mut Command, account: Option<(u32, u32)>) -> io::Result<()> {
    // PGHOST and the like describe another server.
    for (variable, _) in env::vars_os() {
        if variable.to_string_lossy().starts_with("PG") {
            command.env_remove(variable);
        }
    }
    if let Some((user, group)) = account {
        command.uid(user).gid(group);
    }
    let output = command.stdin(Stdio::null()).output()?;
    match output.status.success() {
        true => Ok(()),
        false => Err(io::Error::other(String::from_utf8_lossy(&output.stderr))),
    }
}

/// Finds the folder of the server's programs. A client package has none of them.
fn programs() -> io::Result<PathBuf> {
    let is_whole = |folder: &PathBuf| {
        let mut programs = ["initdb", "pg_ctl", "postgres"].iter();
        programs.all(|name| folder.join(name).is_file())
    };
    let places: Vec<PathBuf> = match env::var_os(FOLDER) {
        Some(folder) if !folder.is_empty() => vec![folder.into()],
        Some(_) | None => {
            let path = env::var_os("PATH").unwrap_or_default();
            let versions = fs::read_dir(PACKAGED).into_iter().flatten().flatten();
            let mut versions: Vec<(u32, PathBuf)> = versions
                .filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path())))
                .collect();
            versions.sort_unstable();
            let packaged = versions.iter().rev();
            let packaged = packaged.map(|(_, folder)| folder.join("bin"));
            env::split_paths(&path).chain(packaged).collect()
        }
    };
    places.into_iter().find(is_whole).ok_or_else(|| {
        io::Error::other(format!(
            "no server is installed in the folder {FOLDER}, or, if it is not set, in PATH or in {PACKAGED}/*/bin; a \
             client is not enough"
        ))
    })
}

/// Returns an account for the server and gives it the folder, if this process is root: PostgreSQL refuses to run as root.
fn account(folder: &Path) -> io::Result<Option<(u32, u32)>> {
    if fs::metadata(folder)?.uid() != 0 {
        return Ok(None);
    }
    let accounts = fs::read_to_string("/etc/passwd")?;
    let ids = |name: &str| {
        let line = accounts
            .lines()
            .find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    let Some((user, group)) = ids("postgres").or_else(|| ids("nobody")) else {
        return Err(io::Error::other(
            "PostgreSQL does not run as root, and this machine has no account `postgres`; create one \
             (useradd --system postgres) or run the tests as another user",
        ));
    };
    chown(folder, Some(user), Some(group))?;
    Ok(Some((user, group)))
}
