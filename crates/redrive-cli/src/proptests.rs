//! Property tests of what the command line reads and prints.
//!
//! `PROPTEST_CASES` sets the number of inputs and `PROPTEST_RNG_SEED` the seed;
//! `cargo xtask fuzz` sets both.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::time::Duration;

use clap::FromArgMatches as _;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::Config;
use serde_json::{Value, json};

use crate::command::{Cli, definition};
use crate::error::Error;
use crate::ndjson::{CaptureLine, Lines};
use crate::program::Program;
use crate::terminal::{clean, cut, one_line, pretty, width};
use crate::time;

/// Any text, often with control characters and quotes.
fn text() -> impl Strategy<Value = String> {
    const ODD: &str = "\0\u{1b}\u{9b}\r\n\t\"\\\u{200b}\u{202e}\u{2028}\u{feff}\u{e0001}\u{e007f}\u{10ffff}é語😀 =,-";
    let odd: Vec<char> = ODD.chars().collect();
    vec(
        prop_oneof![2 => select(odd), 1 => any::<char>(), 2 => proptest::char::range(' ', '~')],
        0..30,
    )
    .prop_map(String::from_iter)
}

/// Any JSON value.
fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 20, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((text(), inner), 0..4).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

/// Known and unknown words of the command line.
fn word() -> impl Strategy<Value = OsString> {
    const KNOWN: &str = "migrate enqueue work stats job dlq breaker queue pause resume prune redact audit \
        repair list show redrive discard reopen groups edit deliver capture validate schedule set \
        retention runs ack open close cancel --json --yes --rate --canary --every --batch --slots \
        --exec --file id=5 --reason --delay --for --merge --patch --older-than --limit --dry-run -- \
        -v orders 5 -1 1h30m 99999999999999999999 class=Timeout age>2h {}";
    let known: Vec<&str> = KNOWN.split(' ').chain([""]).collect();
    prop_oneof![
        6 => select(known).prop_map(OsString::from),
        2 => text().prop_map(OsString::from),
        1 => vec(any::<u8>(), 0..6).prop_map(OsString::from_vec),
    ]
}

proptest! {
    #![proptest_config(Config { failure_persistence: None, ..Config::default() })]

    #[test]
    fn any_arguments_are_accepted_or_rejected_with_a_message(words in vec(word(), 0..8)) {
        let program = [OsString::from("redrive")];
        let parsed = definition(&Program::new("redrive"))
            .try_get_matches_from(program.into_iter().chain(words))
            .and_then(|matches| Cli::from_arg_matches(&matches));
        if let Err(error) = parsed {
            prop_assert!(error.to_string().ends_with('\n'));
        }
    }

    #[test]
    fn a_printed_duration_can_be_parsed(time in 0..100 * 365 * 86_400_u64) {
        let time = Duration::from_secs(time);
        let read = time::parse(&time::short(time)).expect("a duration");
        prop_assert!(read <= time);
        // Units below the second one are not printed.
        let lost = time.saturating_sub(read);
        prop_assert!(lost < Duration::from_hours(1) && lost * 24 <= time, "{lost:?} of {time:?}");
    }

    #[test]
    fn every_line_is_read_or_named(lines in vec((vec(any::<u8>(), 0..40), any::<bool>()), 0..8), max_bytes in 1..50_usize) {
        // Arbitrary bytes, with some lines of JSON between them.
        let lines: Vec<Vec<u8>> = lines.into_iter().map(|(bytes, is_json)| match is_json {
            true => json!(bytes).to_string().into_bytes(),
            false => bytes.into_iter().filter(|byte| *byte != b'\n').collect(),
        }).collect();
        let file = lines.join(&b'\n');
        let mut reader = Lines::new(&*file, max_bytes);
        let (mut good, mut bad) = (0, Vec::new());
        let job = |text: &str| redrive::NewJob::raw("k", text).map_err(|error| error.to_string());
        while let Some(read) = reader.next_as(job).expect("a slice can be read") {
            match read {
                Ok(_) => good += 1,
                Err(line) => bad.push(line.number),
            }
        }
        prop_assert_eq!(reader.bytes(), file.len() as u64);
        let is_blank = |line: &&Vec<u8>| {
            line.iter().all(|byte| b" \t\r".contains(byte))
        };
        // A line that is too long is bad even if it is blank.
        let blank = lines.iter().filter(is_blank).count();
        let reported = good + bad.len();
        prop_assert!(reported <= lines.len() && reported + blank >= lines.len(), "{good} {bad:?} {blank}");
        prop_assert!(bad.is_sorted() && bad.iter().all(|number| (1..=lines.len() as u64).contains(number)));
        let fits = |line: &&Vec<u8>| {
            line.len() <= max_bytes && serde_json::from_slice::<Value>(line).is_ok_and(|value| value.is_array())
        };
        prop_assert!(good >= lines.iter().filter(fits).count());
    }

    #[test]
    fn any_line_is_a_captured_failure_or_rejected(text in text(), value in value(), change in 0..12_usize) {
        _ = CaptureLine::read(&text);
        let mut line = json!({
            "source": "s", "position": "1", "queue": "q", "kind": "k", "payload": 1,
            "error_class": "C", "error_message": "m", "error_detail": "d",
            "content_type": "t", "headers": {"h": "v"},
        });
        prop_assert!(CaptureLine::read(&line.to_string()).is_ok());
        let members: Vec<String> = line.as_object().expect("an object").keys().cloned().collect();
        match members.get(change) {
            Some(member) => line[member] = value,
            None => line["raw"] = value,
        }
        if let Err(error) = CaptureLine::read(&line.to_string()) {
            prop_assert!(!error.is_empty() && !error.contains('\0'));
        }
    }

    #[test]
    fn printed_text_cannot_control_the_terminal(text in text(), columns in 2..20_usize) {
        let escaped = clean(&text);
        let is_odd = |c: char| c.is_control() && !"\n\t".contains(c);
        let hidden = ['\u{202e}', '\u{200b}', '\u{feff}', '\u{e0001}'];
        prop_assert!(!escaped.contains(is_odd) && !escaped.contains(hidden));
        prop_assert!(!one_line(&text).contains(char::is_control));
        prop_assert!(width(&cut(&one_line(&text), columns)) <= columns);
        if let Err(error) = redrive::NewJob::raw(&text, "1") {
            prop_assert!(!Error::from(error).one_line().contains(is_odd));
        }
    }

    #[test]
    fn indented_json_has_the_same_value(value in value(), text in text()) {
        let shown = pretty(&value.to_string());
        prop_assert!(!shown.contains(|c: char| c.is_control() && c != '\n'), "{shown}");
        let read: Result<Value, _> = serde_json::from_str(&shown);
        prop_assert_eq!(read.ok(), Some(value), "{}", shown);
        // The function is not called for other text, but must end.
        _ = pretty(&text);
    }
}
