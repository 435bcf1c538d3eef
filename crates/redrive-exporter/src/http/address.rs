//! The listen address.

use std::io;
use std::net::{Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener, ToSocketAddrs as _};

use anyhow::{Context as _, Result, anyhow};
use rustix::net::{AddressFamily, SocketType, sockopt};

/// Listens on `host:port`, or on `:port` for every address of the machine.
pub(crate) fn bind(address: &str) -> Result<TcpListener> {
    let bound = match address.strip_prefix(':') {
        Some(port) => bind_both(port).or_else(|_| TcpListener::bind(format!("0.0.0.0:{port}"))),
        None => TcpListener::bind(address),
    };
    bound.map_err(|error| match error.kind() == io::ErrorKind::AddrInUse {
        true => anyhow!(
            "could not listen on {address}: the port is in use, perhaps by another exporter; \
             choose another one with --web.listen-address"
        ),
        false => anyhow!(error).context(format!("could not listen on {address}")),
    })
}

/// Binds a port of every IPv6 and IPv4 address. The [`Listener`](super::Listener) listens on it.
fn bind_both(port: &str) -> io::Result<TcpListener> {
    let port = port.parse().map_err(io::Error::other)?;
    let socket = rustix::net::socket(AddressFamily::INET6, SocketType::STREAM, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    // Some systems default to IPv6 alone.
    sockopt::set_ipv6_v6only(&socket, false)?;
    let every = SocketAddrV6::new(Ipv6Addr::UNSPECIFIED, port, 0, 0);
    rustix::net::bind(&socket, &every)?;
    Ok(TcpListener::from(socket))
}

/// Returns the addresses at which a client on this machine reaches a listen address. Connecting to an unspecified one
/// leads to this machine.
pub(crate) fn client_addresses(address: &str) -> Result<impl Iterator<Item = SocketAddr>> {
    let host_and_port = match address.strip_prefix(':') {
        Some(port) => format!("localhost:{port}"),
        None => address.to_owned(),
    };
    let resolved = host_and_port.to_socket_addrs();
    resolved.with_context(|| format!("could not resolve {address}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_address_includes_those_of_ipv4() {
        let socket = bind(":0").expect("a free port");
        let address = socket.local_addr().expect("it is bound");
        assert!(address.ip().is_unspecified());
        // Whatever the default of the system is.
        if address.is_ipv6() {
            assert_eq!(sockopt::ipv6_v6only(&socket), Ok(false));
        }
        bind(":http").expect_err("no port");
        assert!(client_addresses("nowhere").is_err(), "no port");
    }
}
