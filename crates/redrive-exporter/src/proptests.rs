//! Property tests of parsing and rendering.
//!
//! `PROPTEST_CASES` sets the number of inputs per property, `PROPTEST_RNG_SEED` the seed;
//! `cargo xtask fuzz` sets both.

use std::time::Duration;

use clap::Parser as _;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::Config;
use redrive::metrics::{CATALOGUE, Family, MetricKind, Sample, Value};

use crate::args::Arguments;
use crate::collector::render;
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

/// The value of a label.
fn text() -> impl Strategy<Value = String> {
    let odd: &[char] = &[
        '\\', '"', '\n', '\r', '{', '}', ',', '=', '\0', '\u{2028}', 'é', '😀', 'n',
    ];
    vec(prop_oneof![2 => select(odd), 1 => any::<char>()], 0..20).prop_map(String::from_iter)
}

fn family() -> impl Strategy<Value = Family> {
    (
        0..CATALOGUE.len(),
        vec(
            (vec(text(), 4), any::<f64>(), vec(0..1_u64 << 40, 20)),
            1..4,
        ),
    )
        .prop_map(|(index, samples)| {
            let metric = &CATALOGUE[index];
            let sample = |(labels, number, counts): (Vec<String>, f64, Vec<u64>)| Sample {
                labels: labels.into_iter().take(metric.labels.len()).collect(),
                value: match metric.kind {
                    MetricKind::Histogram(bounds) => Value::Buckets {
                        counts: counts.into_iter().take(bounds.len() + 1).collect(),
                        sum: number,
                    },
                    MetricKind::Counter | MetricKind::Gauge => Value::Number(number),
                },
            };
            let mut samples: Vec<Sample> = samples.into_iter().map(sample).collect();
            // As the database and the registry do: sorted, and no series twice.
            samples.sort_by(|one, other| one.labels.cmp(&other.labels));
            samples.dedup_by(|one, other| one.labels == other.labels);
            Family { metric, samples }
        })
}

/// A line of the exposition, parsed as Prometheus parses it: name, labels, value.
type Line = (String, Vec<(String, String)>, f64);

fn read(line: &str) -> Option<Line> {
    let name_end = line.find(['{', ' '])?;
    let (name, mut rest) = line.split_at(name_end);
    let mut labels = Vec::new();
    if let Some(inner) = rest.strip_prefix('{') {
        rest = inner;
        while !rest.starts_with('}') {
            let (label, after) = rest.split_once("=\"")?;
            let mut value = String::new();
            let mut characters = after.char_indices();
            let end = loop {
                match characters.next()? {
                    (at, '"') => break at + 1,
                    (_, '\\') => value.push(match characters.next()?.1 {
                        'n' => '\n',
                        mark @ ('\\' | '"') => mark,
                        _ => return None,
                    }),
                    (_, other) => value.push(other),
                }
            };
            labels.push((label.trim_start_matches(',').to_owned(), value));
            rest = after[end..].trim_start_matches(',');
        }
        rest = &rest[1..];
    }
    let value = match rest.strip_prefix(' ')? {
        "+Inf" => f64::INFINITY,
        "-Inf" => f64::NEG_INFINITY,
        number => number.parse().ok()?,
    };
    Some((name.to_owned(), labels, value))
}

#[expect(
    clippy::float_cmp,
    reason = "a rendered number must parse to the same bits"
)]
fn is_same(one: f64, other: f64) -> bool {
    one == other || one.is_nan() && other.is_nan()
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
    fn an_exposition_parses_to_the_families_it_was_rendered_from(family in family()) {
        let exposition = render(vec![family.clone()]);
        let text = String::from_utf8(exposition.to_vec()).expect("text");
        let mut lines = text.lines().filter(|line| !line.starts_with('#'));
        let labels_of = |sample: &Sample| -> Vec<(String, String)> {
            let named = family.metric.labels.iter().map(|label| label.name.to_owned());
            named.zip(sample.labels.iter().cloned()).collect()
        };
        for sample in &family.samples {
            let labels = labels_of(sample);
            match &sample.value {
                Value::Number(number) => {
                    let line = lines.next().expect("a line");
                    let (name, read_labels, value) = read(line).expect(line);
                    prop_assert_eq!((&*name, &read_labels), (family.metric.name, &labels));
                    prop_assert!(is_same(value, *number), "{line}");
                }
                Value::Buckets { counts, sum } => {
                    let mut cumulative = 0.0;
                    for count in counts {
                        let line = lines.next().expect("a bucket");
                        let (name, mut read_labels, value) = read(line).expect(line);
                        #[expect(clippy::cast_precision_loss, reason = "below 2^53")]
                        {
                            cumulative += *count as f64;
                        }
                        let bound = read_labels.pop().expect("a bound");
                        prop_assert_eq!(name, format!("{}_bucket", family.metric.name));
                        prop_assert_eq!((&read_labels, &*bound.0), (&labels, "le"));
                        prop_assert!(is_same(value, cumulative), "{line}: {cumulative}");
                    }
                    let line = lines.next().expect("a sum");
                    prop_assert!(is_same(read(line).expect(line).2, *sum), "{line}");
                    let line = lines.next().expect("a count");
                    prop_assert!(is_same(read(line).expect(line).2, cumulative), "{line}");
                }
            }
        }
        prop_assert_eq!(lines.next(), None);
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
