//! URLs of databases, and ports of this machine.

use std::net::TcpListener;

/// Returns the parts of `postgres://ROLE@HOST:PORT/DATABASE`: the role, the host with its port, and the database with
/// its options.
pub(crate) fn parts(url: &str) -> (&str, &str, &str) {
    let (role, rest) = url.split_once('@').expect("a URL with a role");
    let (place, database) = rest.split_once('/').expect("a URL with a database");
    (role, place, database)
}

/// Returns the URL of the same database through a port of this machine.
pub(crate) fn through(port: u16, url: &str) -> String {
    let (role, _, database) = parts(url);
    format!("{role}@127.0.0.1:{port}/{database}")
}

/// Returns a free port of this machine, below those that Linux gives to outgoing connections: one of these could take
/// the port before the server does.
pub(crate) fn free_port() -> u16 {
    let is_free = |port: &u16| TcpListener::bind(("127.0.0.1", *port)).is_ok();
    std::iter::repeat_with(|| fastrand::u16(10_000..32_000))
        .find(is_free)
        .expect("an endless search")
}
