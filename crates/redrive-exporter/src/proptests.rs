//! Property tests of parsing.
//!
//! `PROPTEST_CASES` sets the number of inputs per property, `PROPTEST_RNG_SEED` the seed;
//! `cargo xtask fuzz` sets both.

use std::time::Duration;

use clap::Parser as _;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::Config;

use crate::args::Arguments;
use crate::http::Request;
use crate::scrape_timeout::{HEADER, scrape_timeout};

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

/// Any text.
fn text() -> impl Strategy<Value = String> {
    let odd: &[char] = &[
        '\\', '"', '\n', '\r', '{', '}', ',', '=', '\0', '\u{2028}', 'é', '😀', 'n',
    ];
    vec(prop_oneof![2 => select(odd), 1 => any::<char>()], 0..20).prop_map(String::from_iter)
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_request_parser_accepts_or_rejects_any_bytes(bytes in request_bytes()) {
        if let Ok(Some(request)) = Request::parse(&bytes) {
            prop_assert!(request.path.starts_with('/'));
            prop_assert!(request.path.bytes().all(|byte| byte.is_ascii_graphic()));
            prop_assert!(!request.path.contains(['?', '#']));
            _ = scrape_timeout(request.header(HEADER));
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

    #[test]
    fn a_scrape_timeout_is_within_its_limits(header in prop_oneof![text(), "-?[0-9]{0,30}\\.?[0-9]{0,20}(e[+-]?[0-9]{1,4})?"]) {
        let timeout = scrape_timeout(Some(&header));
        prop_assert!((Duration::from_millis(100)..=Duration::from_secs(30)).contains(&timeout));
    }

    #[test]
    fn any_arguments_are_parsed_or_rejected(words in vec(prop_oneof![
        select(&["--web.listen-address", "--web.telemetry-path", "--database-url", "--database-url-file",
                 "--check", "--log-level", ":0", "/metrics", "/", "/-/x", "info", "--", "postgres://x"][..]).prop_map(str::to_owned),
        text(),
    ], 0..6)) {
        let words = ["redrive-exporter".to_owned()].into_iter().chain(words);
        if let Ok(arguments) = Arguments::try_parse_from(words) {
            // The path becomes a part of the landing page.
            prop_assert!(!arguments.telemetry_path.contains(['"', '<', '>', '&', ' ', '\n']));
        }
    }
}
