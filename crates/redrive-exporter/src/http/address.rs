//! The listen address.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6, TcpListener, ToSocketAddrs};

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

/// Returns the addresses at which a client on this machine reaches a listen address.
pub(crate) fn client_addresses(address: &str) -> Result<Vec<SocketAddr>> {
    let all = match address.strip_prefix(':') {
        Some(port) => vec![format!("127.0.0.1:{port}"), format!("[::1]:{port}")],
        None => vec![address.to_owned()],
    };
    let mut addresses = Vec::new();
    for one in all {
        let resolved = one
            .to_socket_addrs()
            .with_context(|| format!("could not resolve {address}"))?;
        addresses.extend(resolved.map(unspecified_to_loopback));
    }
    Ok(addresses)
}

fn unspecified_to_loopback(address: SocketAddr) -> SocketAddr {
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
    fn a_client_reaches_an_unspecified_address_by_loopback() {
        for (address, expected) in [
            ("127.0.0.1:9898", "127.0.0.1:9898"),
            // Of an IPv4 or an IPv6 socket, whichever the system has.
            (":9898", "127.0.0.1:9898 [::1]:9898"),
            ("0.0.0.0:1", "127.0.0.1:1"),
            ("[::]:1", "[::1]:1"),
            ("192.0.2.1:80", "192.0.2.1:80"),
        ] {
            let resolved = client_addresses(address).expect("it is an address");
            let resolved: Vec<String> = resolved.iter().map(ToString::to_string).collect();
            assert_eq!(resolved.join(" "), expected, "{address}");
        }
        let error = client_addresses("nowhere").expect_err("no port");
        assert!(error.to_string().contains("nowhere"), "{error}");
    }

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
    }
}
