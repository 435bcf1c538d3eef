//! Property tests of parsing requests.
//!
//! `PROPTEST_CASES` sets the number of inputs per property, `PROPTEST_RNG_SEED` the seed;
//! `cargo xtask fuzz` sets both.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::Config;

use crate::http::Request;

fn config() -> Config {
    Config {
        failure_persistence: None,
        ..Config::default()
    }
}

/// Bytes that resemble a request.
fn request_bytes() -> impl Strategy<Value = Vec<u8>> {
    let word = select(
        &[
            "GET",
            "HEAD",
            "POST",
            "get",
            "",
            "/metrics",
            "/",
            "/-/healthy",
            "http://h/metrics?x#y",
            "*",
            "//",
            "/é",
            "HTTP/1.1",
            "HTTP/1.0",
            "HTTP/2",
            "HTTP/1.1 ",
            " ",
        ][..],
    );
    let piece = prop_oneof![
        4 => word.prop_map(|word| word.as_bytes().to_vec()),
        3 => select(&[" ", "\r\n", "\n", "\r", "\r\n\r\n", "\n\n", ": ", "Host: x\r\n",
                      "X-Prometheus-Scrape-Timeout-Seconds: 10\r\n", "A:b", ":", "\t", "\0"][..])
            .prop_map(|piece| piece.as_bytes().to_vec()),
        1 => vec(any::<u8>(), 0..8),
    ];
    prop_oneof![
        vec(piece, 0..14).prop_map(|pieces| pieces.concat()),
        vec(any::<u8>(), 0..60),
    ]
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_request_parser_accepts_or_rejects_any_bytes(bytes in request_bytes()) {
        if let Ok(Some(request)) = Request::parse(&bytes) {
            prop_assert!(request.path.starts_with('/'));
            prop_assert!(request.path.bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert!(!request.path.contains(['?', '#']));
        }
    }

    #[test]
    fn a_request_parses_alike_however_it_is_split(bytes in request_bytes(), cuts in vec(0..60_usize, 0..6)) {
        let path = |length: usize| match Request::parse(&bytes[..length]) {
            Ok(Some(request)) => Some(Ok(request.path)),
            Ok(None) => None,
            Err(invalid) => Some(Err(invalid)),
        };
        // The bytes after the head of a request do not change it.
        let mut cuts: Vec<usize> = cuts.into_iter().map(|at| at.min(bytes.len())).collect();
        cuts.sort_unstable();
        if let Some(early) = cuts.into_iter().find_map(path) {
            prop_assert_eq!(Some(early), path(bytes.len()));
        }
    }
}
