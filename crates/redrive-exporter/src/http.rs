//! A small HTTP server with a limit on everything a client can use up.
//!
//! `httparse` parses requests and `tiny_http` writes responses. The accept loop is our own, because
//! the one in `tiny_http` cannot be bounded from outside: it stops for good after a failed `accept`
//! (no free descriptor, a client that has already hung up), starts an unlimited number of threads,
//! waits without a timeout for requests, and accepts headers of any length.
//!
//! * [`Listener`] gives each connection a thread, up to a limit, and survives every error. At the limit, the address
//!   with the most connections [loses one](admission), so a flood from one address keeps no scrape from another out.
//! * A connection carries one request, which has 5 seconds and 16 KiB.
//!
//! Responses are HTTP/1.0 and close the connection. There is no keep-alive and no chunked encoding,
//! so the rest of one request is never taken for the next.

mod address;
mod capacity;
mod admission;
mod request;
mod response;
mod connection;
mod listener;

pub(crate) use address::{bind, client_addresses};
pub(crate) use capacity::most_connections;
pub(crate) use listener::Listener;
pub(crate) use request::Request;
pub(crate) use response::Response;
