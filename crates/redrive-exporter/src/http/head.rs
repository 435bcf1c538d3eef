//! The head of a request: its first line and its headers. Pure.

use std::str::FromStr as _;

use tiny_http::{Header, Method};

/// The longest head that is read.
pub(crate) const LONGEST: usize = 16 << 10;

/// What somebody asks for.
#[derive(Debug)]
pub(crate) struct Head {
    /// What is to be done.
    pub(crate) method: Method,
    /// With what: the path, without a query.
    pub(crate) path: String,
    headers: Vec<Header>,
}

/// It is no head of a request.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed;

impl Head {
    /// Where the head ends, after its empty line, if it has come that far. `seen` bytes were looked
    /// at before.
    pub(crate) fn end(bytes: &[u8], seen: usize) -> Option<usize> {
        // The empty line may have begun with the last bytes that were looked at.
        let from = seen.saturating_sub(3);
        let rest = bytes.get(from..)?;
        (0..rest.len()).find_map(|at| {
            let end = |line: &[u8]| rest[at..].starts_with(line).then(|| from + at + line.len());
            end(b"\r\n\r\n").or_else(|| end(b"\n\n"))
        })
    }

    /// Reads a whole head.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Head, Malformed> {
        let text = std::str::from_utf8(bytes).map_err(|_| Malformed)?;
        let mut lines = text.lines();
        let mut words = lines.next().ok_or(Malformed)?.split(' ');
        let (Some(method), Some(target), Some(version), None) =
            (words.next(), words.next(), words.next(), words.next())
        else {
            return Err(Malformed);
        };
        if !matches!(version, "HTTP/1.1" | "HTTP/1.0") {
            return Err(Malformed);
        }
        if method.is_empty() || !method.bytes().all(|byte| byte.is_ascii_alphabetic()) {
            return Err(Malformed);
        }
        let headers = lines
            .take_while(|line| !line.is_empty())
            .map(|line| Header::from_str(line).map_err(|()| Malformed))
            .collect::<Result<_, _>>()?;
        Ok(Head {
            method: Method::from_str(method).map_err(|()| Malformed)?,
            path: path(target).ok_or(Malformed)?.to_owned(),
            headers,
        })
    }

    /// The value of a header, the first of that name.
    pub(crate) fn header(&self, name: &'static str) -> Option<&str> {
        let header = self.headers.iter().find(|one| one.field.equiv(name))?;
        Some(header.value.as_str())
    }
}

/// The path in a target: `/metrics`, `/metrics?x` and `http://host/metrics` ask for the same.
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

    fn parse(text: &str) -> Result<Head, Malformed> {
        Head::parse(text.as_bytes())
    }

    #[test]
    fn a_head_is_read() {
        let head = parse(
            "GET /metrics?x=1 HTTP/1.1\r\nHost: a:1\r\nx-prometheus-scrape-timeout-seconds:  10 \r\n\r\n",
        )
        .expect("a head");
        assert_eq!((&head.method, &*head.path), (&Method::Get, "/metrics"));
        assert_eq!(head.header(crate::deadline::HEADER), Some("10"));
        assert_eq!(head.header("Accept"), None);
        let head = parse("BREW http://host:1/-/ready HTTP/1.0\n\n").expect("a head");
        assert_eq!(
            (head.method.as_str(), &*head.path),
            ("BREW", "/-/ready"),
            "also with bare newlines"
        );
        assert_eq!(
            parse("GET http://host HTTP/1.1\r\n\r\n")
                .expect("a head")
                .path,
            "/"
        );
    }

    #[test]
    fn what_is_no_head_is_refused() {
        for text in [
            "",
            "\r\n\r\n",
            "GET /\r\n\r\n",
            "GET  / HTTP/1.1\r\n\r\n",
            "GET / HTTP/2.0\r\n\r\n",
            "GET / HTTP/1.1 x\r\n\r\n",
            "G\u{e9}T / HTTP/1.1\r\n\r\n",
            "GET metrics HTTP/1.1\r\n\r\n",
            "GET /\u{7f} HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1\r\nno colon\r\n\r\n",
            "GET / HTTP/1.1\r\nspace in name: x\r\n\r\n",
            "\u{16}\u{3}\u{1} hello of TLS HTTP/1.1\r\n\r\n",
        ] {
            assert_eq!(
                parse(text).map(|head| head.path),
                Err(Malformed),
                "{text:?}"
            );
        }
        assert!(Head::parse(b"GET /\xff HTTP/1.1\r\n\r\n").is_err());
    }

    #[test]
    fn the_end_is_found_wherever_the_pieces_are_cut() {
        let whole = b"GET / HTTP/1.1\r\nA: b\r\n\r\nthe body";
        let end = whole.len() - "the body".len();
        for cut in 0..whole.len() {
            let early = Head::end(&whole[..cut], 0);
            assert_eq!(early, (cut >= end).then_some(end), "cut at {cut}");
            assert_eq!(Head::end(whole, cut.min(end - 1)), Some(end), "seen {cut}");
        }
    }

    #[test]
    fn no_bytes_make_it_panic() {
        // Half of them begin well, so that what follows is reached.
        let mut random = fastrand::Rng::with_seed(4);
        let pieces: [&[u8]; 9] = [
            b"GET ",
            b"/metrics",
            b" HTTP/1.1",
            b"\r\n",
            b"\n",
            b": ",
            b"\xc3",
            b"\0",
            b"://",
        ];
        for _ in 0..20_000 {
            let mut bytes = Vec::new();
            if random.bool() {
                bytes.extend_from_slice(b"GET / HTTP/1.1\r\n");
            }
            for _ in 0..random.usize(..20) {
                match random.bool() {
                    true => bytes.extend_from_slice(pieces[random.usize(..pieces.len())]),
                    false => bytes.push(random.u8(..)),
                }
            }
            let end = Head::end(&bytes, random.usize(..30)).unwrap_or(bytes.len());
            assert!(end <= bytes.len());
            if let Ok(head) = Head::parse(&bytes[..end]) {
                assert!(head.path.starts_with('/'), "{bytes:?}");
            }
        }
    }
}
