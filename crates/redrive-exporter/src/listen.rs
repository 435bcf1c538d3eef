//! The address that visitors come to.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};

use crate::error::{Error, Result};

/// Listens on `host:port`, or on `:port` for every address of the machine.
pub(crate) fn listen(address: &str) -> Result<TcpListener> {
    let bound = match address.strip_prefix(':') {
        // By both families where the system has both.
        Some(port) => TcpListener::bind(format!("[::]:{port}"))
            .or_else(|_| TcpListener::bind(format!("0.0.0.0:{port}"))),
        None => TcpListener::bind(address),
    };
    bound.map_err(|error| match error.kind() == io::ErrorKind::AddrInUse {
        true => Error::new(format!(
            "could not listen on {address}: the port is in use, perhaps by another exporter; \
             choose another one with --web.listen-address"
        )),
        false => Error::caused_by(format!("could not listen on {address}"), error),
    })
}

/// Where a visitor of the same machine finds who listens on the address.
pub(crate) fn reachable(address: &str) -> Result<Vec<SocketAddr>> {
    let full = match address.strip_prefix(':') {
        Some(port) => format!("127.0.0.1:{port}"),
        None => address.to_owned(),
    };
    let found = full
        .to_socket_addrs()
        .map_err(|error| Error::caused_by(format!("could not find {address}"), error))?;
    Ok(found.map(local).collect())
}

/// An address that stands for all of them, as one that can be visited.
fn local(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        IpAddr::V4(_) => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(_) => IpAddr::V6(Ipv6Addr::LOCALHOST),
    };
    SocketAddr::new(ip, address.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_listens_everywhere_is_found_here() {
        for (address, expected) in [
            ("127.0.0.1:9898", "127.0.0.1:9898"),
            (":9898", "127.0.0.1:9898"),
            ("0.0.0.0:1", "127.0.0.1:1"),
            ("[::]:1", "[::1]:1"),
            ("192.0.2.1:80", "192.0.2.1:80"),
        ] {
            let found = reachable(address).expect("it is an address");
            assert_eq!(found, [expected.parse().expect("an address")], "{address}");
        }
        let error = reachable("nowhere").expect_err("no port").told();
        assert!(error.contains("nowhere"), "{error}");
    }

    #[test]
    fn a_port_that_is_in_use_is_told_clearly() {
        let first = listen("127.0.0.1:0").expect("a free port");
        let address = first.local_addr().expect("an address").to_string();
        let error = listen(&address).expect_err("in use").told();
        assert!(
            error.contains(&address) && error.contains("in use"),
            "{error}"
        );
    }
}
