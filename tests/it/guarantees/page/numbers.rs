//! The numbers of GUARANTEES.md equal those of the code and the schema.

use redrive_tests::prelude::*;

use super::read;

const LIMITS: &str = "worker/limits.rs";
const BOUNDS: &str = "worker/recovery_bounds.rs";
const REAP: &str = "pipeline/reap.rs";
const DATABASE: &str = "db/database.rs";
const SESSION: &str = "db/session.rs";
const REPORT: &str = "job/error_report.rs";
const RUNS: &str = "dlq/runs/options.rs";

/// The numbers of the page: the name, and the file below the library's sources with its constant.
const CONSTANTS: &[(&str, &str, &str)] = &[
    ("lease", LIMITS, "DEFAULT_LEASE"),
    ("renewals per lease", LIMITS, "RENEWALS_PER_LEASE"),
    ("reap interval", BOUNDS, "MAX_CHECK_INTERVAL"),
    ("leases per reap", REAP, "MAX_REAPED_LEASES"),
    ("jobs per reap", REAP, "MAX_REAPED_JOBS"),
    ("bytes per reap", REAP, "MAX_REAPED_BYTES"),
    ("delay per crash", REAP, "CRASH_DELAY"),
    (
        "poll behind a pooler",
        LIMITS,
        "DEFAULT_POOLER_POLL_INTERVAL",
    ),
    ("hold time", LIMITS, "DEFAULT_HOLD_TIME"),
    ("batch size", LIMITS, "MAX_BATCH_SIZE"),
    ("batch bytes", "worker/gathering.rs", "MAX_BATCH_BYTES"),
    ("linger", LIMITS, "DEFAULT_LINGER"),
    ("deadline", LIMITS, "DEFAULT_DEADLINE"),
    ("crashes", "pipeline/claim.rs", "MAX_CRASHES"),
    ("refunds", "pipeline/settle.rs", "MAX_REFUNDS"),
    ("outage limit", "pipeline/judge.rs", "MAX_OUTAGE"),
    ("breaker threshold", LIMITS, "DEFAULT_BREAKER_THRESHOLD"),
    ("first probe", "pipeline/breaker.rs", "MIN_PROBE_WAIT"),
    ("probe cap", "pipeline/breaker.rs", "MAX_PROBE_WAIT"),
    ("group", "job/new_job.rs", "MAX_GROUP_BYTES"),
    ("follow-ups", "job/follow_up.rs", "MAX_FOLLOW_UPS"),
    ("follow-up bytes", "job/follow_up.rs", "MAX_FOLLOW_UP_BYTES"),
    ("error class", REPORT, "MAX_CLASS_BYTES"),
    ("error message", REPORT, "MAX_MESSAGE_BYTES"),
    ("error detail", REPORT, "MAX_DETAIL_BYTES"),
    ("redrive rate", RUNS, "DEFAULT_RATE"),
    ("tolerated deaths", RUNS, "DEFAULT_TOLERATED"),
    ("halt sample", RUNS, "DEFAULT_SAMPLE"),
    ("driver lease", "dlq/runs/driver.rs", "DRIVER_LEASE_MS"),
    ("call deadline", DATABASE, "DEFAULT_CALL_TIMEOUT"),
    ("bulk deadline", DATABASE, "DEFAULT_BULK_TIMEOUT"),
    ("migration limit", DATABASE, "MAX_UNCHECKED_CALL"),
    ("statement timeout", SESSION, "statement_timeout"),
    ("lock timeout", SESSION, "lock_timeout"),
    ("idle in transaction", SESSION, "MIDWAY"),
    ("vanished host", SESSION, "tcp_user_timeout"),
    (
        "worker connections",
        "worker/builder.rs",
        "WORKER_CONNECTIONS",
    ),
];

/// The sums of two times.
const SUMS: &[(&str, [(&str, &str); 2])] = &[
    (
        "recovery time",
        [(LIMITS, "DEFAULT_LEASE"), (BOUNDS, "MAX_CHECK_INTERVAL")],
    ),
    (
        "orphaned lease",
        [
            (DATABASE, "DEFAULT_CALL_TIMEOUT"),
            (DATABASE, "DEFAULT_CALL_TIMEOUT"),
        ],
    ),
];

/// The numbers in the functions of the schema: the name, the function, what is written around it, and its unit.
const FUNCTIONS: &[(&str, &str, &str, &str)] = &[
    ("identical deaths", "reopen", "NEW.alike >= (#) ", ""),
    (
        "failed redrives",
        "reopen",
        "NEW.failed_redrives >= (#) ",
        "",
    ),
    (
        "abandoned claims",
        "change_event",
        r"letter.crashes \+ 1 >= (#) ",
        "",
    ),
    (
        "snapshot wait",
        "is_seen_drained",
        "interval '(#) seconds'",
        " s",
    ),
    (
        "audit age",
        "prune_audit",
        "older_than BETWEEN '(#) days'",
        " days",
    ),
];

/// Tests the behaviour: of thirty attempts, a history keeps this many.
const HISTORY: &str = "WITH RECURSIVE kept (attempt, history) AS ( \
         VALUES (0, NULL::jsonb) UNION ALL \
         SELECT attempt + 1, redrive.add_attempt(history, jsonb_build_object( \
             'attempt', attempt + 1, 'run_ms', 1, 'ended_at', now())) \
         FROM kept WHERE attempt < 30) \
     SELECT jsonb_array_length(history)::bigint FROM kept WHERE attempt = 30";

/// A name in italics, and the value in brackets behind it.
struct Stated {
    name: String,
    value: Option<String>,
}

/// Returns the names in italics, and what else the text says.
fn stated() -> (Vec<Stated>, String) {
    let page = read("GUARANTEES.md");
    let (mut names, mut prose) = (Vec::new(), String::new());
    for line in page.lines() {
        let plain: String = line.split('`').step_by(2).collect();
        let plain = plain.replace("**", "");
        let mut parts = plain.split('*');
        prose.push_str(parts.next().unwrap_or_default());
        while let (Some(name), Some(rest)) = (parts.next(), parts.next()) {
            let bracket = rest
                .strip_prefix(" (")
                .and_then(|rest| rest.split_once(')'));
            prose.push_str(bracket.map_or(rest, |(_, after)| after));
            names.push(Stated {
                name: name.to_owned(),
                value: bracket.map(|(value, _)| value.to_owned()),
            });
        }
        prose.push('\n');
    }
    (names, prose)
}

/// Fails unless the text states this value, and no other, for the number of this name.
fn assert_stated(stated: &[Stated], name: &str, ours: &str) {
    let values: Vec<&str> = stated
        .iter()
        .filter(|stated| stated.name == name)
        .filter_map(|stated| stated.value.as_deref())
        .collect();
    assert!(!values.is_empty(), "*{name}* ({ours}) is not stated");
    assert!(
        values.iter().all(|value| *value == ours),
        "*{name}* is {ours}, not {values:?}"
    );
}

/// Returns the number in the largest unit that divides it.
fn formatted(amount: Amount) -> String {
    let (number, units) = match amount {
        Amount::Milliseconds(ms) if ms > DAY && ms % DAY == 0 => (ms, &[(DAY, " days")][..]),
        Amount::Milliseconds(ms) => (ms, TIMES),
        Amount::Bytes(bytes) => (bytes, SIZES),
        Amount::Count(count) => (count, &[(1, "")][..]),
    };
    let unit = units.iter().find(|(unit, _)| number % unit == 0);
    let (unit, name) = unit.expect("the last unit is one");
    format!("{}{name}", grouped(number / unit))
}

/// Returns the number with a comma between thousands.
fn grouped(number: u128) -> String {
    let digits = number.to_string();
    let parts: Vec<&str> = digits
        .as_bytes()
        .rchunks(3)
        .rev()
        .map(|part| str::from_utf8(part).expect("digits"))
        .collect();
    parts.join(",")
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Amount {
    Milliseconds(u128),
    Bytes(u128),
    Count(u128),
}

const DAY: u128 = 86_400_000;
const TIMES: &[(u128, &str)] = &[
    (3_600_000, " h"),
    (60_000, " min"),
    (1000, " s"),
    (1, " ms"),
];
const SIZES: &[(u128, &str)] = &[(1 << 20, " MiB"), (1 << 10, " KiB"), (1, " bytes")];

/// Returns the value of a constant in the source of the library.
fn constant(file: &str, name: &str) -> Amount {
    let source = read(&format!("crates/redrive/src/{file}"));
    let number = |text: &str| -> u128 {
        text.split('*')
            .map(|factor| factor.trim().replace('_', ""))
            .map(|factor| factor.parse::<u128>().expect("a number"))
            .product()
    };
    if name.ends_with("_timeout") {
        // A setting of the sessions of a worker.
        let setting = format!("(\"{name}\", \"'");
        let (_, value) = source.split_once(&setting).expect("a setting");
        let (seconds, _) = value.split_once('s').expect("a unit");
        return Amount::Milliseconds(number(seconds) * 1000);
    }
    let head = format!("const {name}: ");
    let mut found = source.lines().filter(|line| line.contains(&head));
    let line = found
        .next()
        .unwrap_or_else(|| panic!("{file} has no constant {name}"));
    assert_eq!(found.next(), None, "{file} has two constants {name}");
    let (_, written) = line.split_once(" = ").expect("a value");
    let value = written.trim_end_matches([';', ')']);
    if let Some((unit, amount)) = value.split_once('(') {
        return match unit {
            "Duration::from_millis" => Amount::Milliseconds(number(amount)),
            "Duration::from_secs" => Amount::Milliseconds(number(amount) * 1000),
            "Duration::from_mins" => Amount::Milliseconds(number(amount) * 60_000),
            "Duration::from_hours" => Amount::Milliseconds(number(amount) * 3_600_000),
            "NonZeroU32::MIN.saturating_add" => Amount::Count(1 + number(amount)),
            _ => panic!("{line}"),
        };
    }
    match name {
        _ if name.ends_with("_MS") => Amount::Milliseconds(number(value)),
        _ if name.ends_with("_BYTES") => Amount::Bytes(number(value)),
        _ => Amount::Count(number(value)),
    }
}

#[test]
fn every_number_equals_its_constant_in_the_code() {
    let (stated, _) = stated();
    for (name, file, place) in CONSTANTS {
        assert_stated(&stated, name, &formatted(constant(file, place)));
    }
    for (name, places) in SUMS {
        let sum = places
            .iter()
            .map(|(file, place)| match constant(file, place) {
                Amount::Milliseconds(ms) => ms,
                other @ (Amount::Bytes(_) | Amount::Count(_)) => {
                    panic!("{place} is no time: {other:?}")
                }
            });
        assert_stated(&stated, name, &formatted(Amount::Milliseconds(sum.sum())));
    }
}

#[test]
fn every_number_of_the_schema_equals_its_value_in_the_database() {
    let (_test, mut client) = TestDatabase::with_client();
    let (stated, _) = stated();
    let history: i64 = client.ask(HISTORY, &[]);
    assert_stated(&stated, "history", &history.to_string());
    let asked = "SELECT (regexp_match(pg_get_functiondef(p.oid), $2))[1]::bigint FROM pg_proc p
                 WHERE p.pronamespace = 'redrive'::regnamespace AND p.proname = $1";
    for (name, function, around, unit) in FUNCTIONS {
        let number = around.replace('#', "[0-9]+");
        let value: i64 = client.ask(asked, &[function, &number]);
        assert_stated(&stated, name, &format!("{value}{unit}"));
    }
}

#[test]
fn the_text_has_no_number_that_is_not_compared() {
    let (stated, prose) = stated();
    let known: Vec<&str> = CONSTANTS
        .iter()
        .map(|(name, ..)| *name)
        .chain(FUNCTIONS.iter().map(|(name, ..)| *name))
        .chain(SUMS.iter().map(|(name, _)| *name))
        .chain(["history", "italics", "unavailable"])
        .collect();
    for Stated { name, .. } in &stated {
        assert!(known.contains(&&**name), "no number is called *{name}*");
    }
    for line in prose.lines() {
        let line = line
            .trim_start_matches("### P")
            .trim_start_matches(|c: char| c.is_ascii_digit());
        assert!(
            !line.contains(|c: char| c.is_ascii_digit()),
            "a number that no test compares with the code: {line}"
        );
    }
}
