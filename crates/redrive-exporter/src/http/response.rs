//! Responses: a status, headers and a body.

use std::io::{self, Write};
use std::sync::Arc;

use tiny_http::{HTTPVersion, Header, Method, StatusCode};

/// A response to a request.
#[derive(Clone, Debug)]
pub(crate) struct Response {
    /// The status code.
    pub(crate) status: u16,
    /// The headers, without `Server` and `Content-Length`, which are added.
    pub(crate) headers: Vec<(&'static str, &'static str)>,
    /// The body. Concurrent scrapes share one.
    pub(crate) body: Arc<Vec<u8>>,
}

impl Response {
    /// Returns a response with one line of plain text.
    pub(crate) fn line(status: u16, line: &str) -> Response {
        Response {
            status,
            headers: vec![("Content-Type", "text/plain; charset=utf-8")],
            body: Arc::new(format!("{line}\n").into_bytes()),
        }
    }

    /// Writes the response to a request with this method.
    pub(super) fn write(&self, out: impl Write, method: &Method) -> io::Result<()> {
        let is_head = *method == Method::Head;
        self.to_tiny_http()
            .raw_print(out, HTTPVersion(1, 0), &[], is_head, None)
    }

    fn to_tiny_http(&self) -> tiny_http::Response<&[u8]> {
        let server = concat!("redrive-exporter/", env!("CARGO_PKG_VERSION"));
        let headers = self
            .headers
            .iter()
            .chain(&[("Server", server)])
            .filter_map(|(name, value)| Header::from_bytes(*name, *value).ok())
            .collect();
        tiny_http::Response::new(
            StatusCode(self.status),
            headers,
            self.body.as_slice(),
            Some(self.body.len()),
            None,
        )
    }
}
