//! The head of a request: its first line and headers. Pure.

use std::str::FromStr as _;
use std::time::Duration;

use tiny_http::Method;

use crate::scrape_timeout::{HEADER, scrape_timeout};

/// The maximum size of a request head, in bytes.
pub(crate) const MAX_BYTES: usize = 16 * 1024;
/// The maximum number of headers. Prometheus sends about five.
const MAX_HEADERS: usize = 128;

/// A parsed request head.
#[derive(Debug)]
pub(crate) struct Request {
    /// The method.
    pub(crate) method: Method,
    /// The path, without the query.
    pub(crate) path: String,
    /// How long a scrape may take.
    pub(crate) scrape_timeout: Duration,
}

/// Why bytes are not a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Invalid {
    /// The bytes do not follow the grammar of HTTP/1.
    Malformed,
    /// The request has more than [`MAX_HEADERS`] headers or [`MAX_BYTES`] bytes.
    TooLarge,
}

impl Request {
    /// Parses the bytes received so far. Returns `None` until the head is complete.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Option<Request>, Invalid> {
        let mut headers = [httparse::EMPTY_HEADER; MAX_HEADERS];
        let mut parsed = httparse::Request::new(&mut headers);
        let head_length = match parsed.parse(bytes) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) if bytes.len() > MAX_BYTES => {
                return Err(Invalid::TooLarge);
            }
            Ok(httparse::Status::Partial) => return Ok(None),
            Err(httparse::Error::TooManyHeaders) => return Err(Invalid::TooLarge),
            Err(_) => return Err(Invalid::Malformed),
        };
        if head_length > MAX_BYTES {
            return Err(Invalid::TooLarge);
        }
        let method = parsed.method.ok_or(Invalid::Malformed)?;
        let path = parsed.path.and_then(path).ok_or(Invalid::Malformed)?;
        let mut headers = parsed.headers.iter();
        let header = headers.find(|header| header.name.eq_ignore_ascii_case(HEADER));
        let announced = header.and_then(|header| std::str::from_utf8(header.value).ok());
        Ok(Some(Request {
            method: Method::from_str(method).map_err(|()| Invalid::Malformed)?,
            path: path.to_owned(),
            scrape_timeout: scrape_timeout(announced),
        }))
    }
}

/// Returns the path of a request target: `/metrics`, `/metrics?x` and `http://host/metrics` have
/// the same one.
fn path(target: &str) -> Option<&str> {
    let from = match target.split_once("://") {
        Some((_, rest)) if !target.starts_with('/') => rest.find('/').map_or("/", |at| &rest[at..]),
        _ => target,
    };
    let path = from.split(['?', '#']).next().unwrap_or_default();
    let is_plain = path.bytes().all(|byte| byte.is_ascii_graphic());
    (path.starts_with('/') && is_plain).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Option<Request>, Invalid> {
        Request::parse(text.as_bytes())
    }

    #[track_caller]
    fn complete(text: &str) -> Request {
        parse(text).expect("a request").expect("a complete head")
    }

    #[test]
    fn a_request_head_is_parsed() {
        let request = complete(
            "GET /metrics?x=1 HTTP/1.1\r\nHost: a:1\r\nx-prometheus-scrape-timeout-seconds:  10 \r\n\r\n",
        );
        assert_eq!(
            (&request.method, &*request.path),
            (&Method::Get, "/metrics")
        );
        assert_eq!(request.scrape_timeout, Duration::from_millis(9500));
        let request = complete("BREW http://host:1/-/ready HTTP/1.0\n\n");
        assert_eq!(
            (request.method.as_str(), &*request.path),
            ("BREW", "/-/ready"),
            "bare newlines are accepted"
        );
        assert_eq!(complete("GET http://host HTTP/1.1\r\n\r\n").path, "/");
        let to_another = complete("GET /metrics?to=http://host/path HTTP/1.1\r\n\r\n");
        assert_eq!(to_another.path, "/metrics");
    }

    #[test]
    fn malformed_requests_are_rejected() {
        for text in [
            "GET /\r\n\r\n",
            "GET  / HTTP/1.1\r\n\r\n",
            "GET / HTTP/2.0\r\n\r\n",
            "GET / HTTP/1.1 x\r\n\r\n",
            "G\u{e9}T / HTTP/1.1\r\n\r\n",
            "GET metrics HTTP/1.1\r\n\r\n",
            "GET /\u{e9} HTTP/1.1\r\n\r\n",
            "GET /\u{7f} HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nno colon\r\n\r\n",
            "GET / HTTP/1.1\r\nspace in name: x\r\n\r\n",
            "\u{16}\u{3}\u{1} a TLS client hello HTTP/1.1\r\n\r\n",
        ] {
            let parsed = parse(text).map(|request| request.map(|request| request.path));
            assert_eq!(parsed, Err(Invalid::Malformed), "{text:?}");
        }
        assert!(Request::parse(b"GET /\xff HTTP/1.1\r\n\r\n").is_err());
    }

    #[test]
    fn a_head_of_sixteen_kibibytes_is_accepted_and_a_larger_one_is_not() {
        let start = "GET / HTTP/1.1\r\nX: ";
        let head = |length: usize| {
            let value = "x".repeat(length - start.len() - "\r\n\r\n".len());
            format!("{start}{value}\r\n\r\n")
        };
        let (fits, too_large) = (head(MAX_BYTES), head(MAX_BYTES + 1));
        assert!(parse(&fits).expect("a request").is_some());
        let part = &too_large[..MAX_BYTES];
        assert!(parse(part).expect("a part of a request").is_none());
        let endless = head(2 * MAX_BYTES);
        let endless = &endless[..=MAX_BYTES];
        let many = "X: y\r\n".repeat(MAX_HEADERS + 1);
        let many = format!("GET / HTTP/1.1\r\n{many}\r\n");
        for text in [endless, &too_large, &many] {
            let parsed = parse(text).map(|request| request.map(|request| request.path));
            assert_eq!(parsed, Err(Invalid::TooLarge), "{} bytes", text.len());
        }
    }
}
