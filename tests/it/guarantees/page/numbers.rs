//! The numbers of GUARANTEES.md equal those of the code and the schema.

use redrive_tests::prelude::*;

const LIMITS: &str = "worker/limits.rs";
const REAP: &str = "pipeline/reap.rs";
const DATABASE: &str = "db/database.rs";
const SESSION: &str = "db/session.rs";
const REPORT: &str = "job/error_report.rs";
const RUNS: &str = "dlq/runs/options.rs";

/// The numbers of the page: the name, and the file below the library's sources with its constant.
const CONSTANTS: &[(&str, &str, &str)] = &[
    ("lease", LIMITS, "DEFAULT_LEASE"),
    ("renewals per lease", LIMITS, "RENEWALS_PER_LEASE"),
    ("reap interval", LIMITS, "MAX_CHECK_INTERVAL"),
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

/// The sums of two of these times.
const SUMS: [(&str, [&str; 2]); 2] = [
    ("recovery time", ["lease", "reap interval"]),
    ("orphaned lease", ["call deadline", "call deadline"]),
];

/// The numbers in the functions of the schema: the name, the function, what is written before it, and its unit.
const FUNCTIONS: [(&str, &str, &str, &str); 6] = [
    (
        "halt sample",
        "paced",
        r"NULL AND recovered \+ died >= ",
        "",
    ),
    ("identical deaths", "reopen", r"NEW\.alike >= ", ""),
    ("failed redrives", "reopen", "failed_redrives >= ", ""),
    ("abandoned claims", "change_event", r"crashes \+ 1 >= ", ""),
    ("snapshot wait", "turn_ring", "interval '", " s"),
    ("audit age", "audit_horizon", "older_than >= '", " days"),
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
    let page = committed("GUARANTEES.md");
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

/// A number in milliseconds, in bytes or of things, and which of them.
type Amount = (u128, &'static str);

/// Fails unless the text states this value, and no other, for the number of this name.
#[track_caller]
fn assert_stated(stated: &[Stated], name: &str, ours: Amount) {
    let of_name = stated.iter().filter(|stated| stated.name == name);
    let values: Vec<&str> = of_name.filter_map(|it| it.value.as_deref()).collect();
    assert!(!values.is_empty(), "*{name}* ({ours:?}) is not stated");
    let is_ours = values.iter().all(|value| amount(value) == ours);
    assert!(is_ours, "*{name}* is {ours:?}, not {values:?}");
}

/// Reads a number with its unit.
fn amount(text: &str) -> Amount {
    let (number, unit) = text.split_once(' ').unwrap_or((text, ""));
    let (factor, kind) = match unit {
        "" => (1, "count"),
        "ms" => (1, "time"),
        "s" => (1000, "time"),
        "min" => (60_000, "time"),
        "h" => (3_600_000, "time"),
        "days" => (86_400_000, "time"),
        "bytes" => (1, "size"),
        "KiB" => (1 << 10, "size"),
        "MiB" => (1 << 20, "size"),
        _ => panic!("{text}"),
    };
    let number: u128 = number.replace(',', "").parse().expect(text);
    (number * factor, kind)
}

/// Returns the value of a constant in the source of the library.
fn constant(file: &str, name: &str) -> Amount {
    let source = committed(&format!("crates/redrive/src/{file}"));
    if name.ends_with("_timeout") {
        // A setting of the sessions of a worker.
        let setting = format!("(\"{name}\", \"'");
        let (_, value) = source.split_once(&setting).expect("a setting");
        let (seconds, _) = value.split_once('s').expect("a unit");
        return amount(&format!("{seconds} s"));
    }
    let head = format!("const {name}: ");
    let mut found = source.lines().filter_map(|line| line.split_once(&head));
    let written = found.next();
    let (_, written) = written.unwrap_or_else(|| panic!("{file} has no constant {name}"));
    assert_eq!(found.next(), None, "{file} has two constants {name}");
    let (_, value) = written.split_once(" = ").expect("a value");
    let value = value.trim_end_matches([';', ')']);
    let (function, number) = value.split_once('(').unwrap_or(("", value));
    let factors = number.split('*').map(|it| it.trim().replace('_', ""));
    let number: u128 = factors.map(|it| it.parse::<u128>().expect(value)).product();
    match function {
        "Duration::from_millis" => (number, "time"),
        "Duration::from_secs" => (number * 1000, "time"),
        "Duration::from_mins" => (number * 60_000, "time"),
        "Duration::from_hours" => (number * 3_600_000, "time"),
        "NonZeroU32::MIN.saturating_add" => (1 + number, "count"),
        "" if name.ends_with("_MS") => (number, "time"),
        "" if name.ends_with("_BYTES") => (number, "size"),
        "" => (number, "count"),
        _ => panic!("{value}"),
    }
}

#[test]
fn every_number_equals_its_constant_in_the_code() {
    let (stated, _) = stated();
    let value = |name: &str| {
        let named = CONSTANTS.iter().find(|(of, ..)| *of == name);
        let (_, file, place) = named.expect(name);
        constant(file, place)
    };
    for (name, ..) in CONSTANTS {
        assert_stated(&stated, name, value(name));
    }
    for (name, [one, other]) in SUMS {
        assert_stated(&stated, name, (value(one).0 + value(other).0, "time"));
    }
}

#[test]
fn every_number_of_the_schema_equals_its_value_in_the_database() {
    let (_test, mut client) = TestDatabase::with_client();
    let (stated, _) = stated();
    let history: i64 = client.ask(HISTORY, &[]);
    assert_stated(&stated, "history", amount(&history.to_string()));
    let asked = "SELECT (regexp_match(pg_get_functiondef(p.oid), $2))[1]::bigint FROM pg_proc p
                 WHERE p.pronamespace = 'redrive'::regnamespace AND p.proname = $1";
    for (name, function, before, unit) in FUNCTIONS {
        let number = format!("{before}([0-9]+)");
        let value: i64 = client.ask(asked, &[&function, &number]);
        assert_stated(&stated, name, amount(&format!("{value}{unit}")));
    }
}

#[test]
fn the_text_has_no_number_that_is_not_compared() {
    let (stated, prose) = stated();
    let mut known = vec!["history", "italics", "unavailable"];
    known.extend(CONSTANTS.iter().map(|(name, ..)| *name));
    known.extend(FUNCTIONS.iter().map(|(name, ..)| *name));
    known.extend(SUMS.iter().map(|(name, _)| *name));
    for Stated { name, .. } in &stated {
        assert!(known.contains(&&**name), "no number is called *{name}*");
    }
    for line in prose.lines() {
        let line = line
            .trim_start_matches("### P")
            .trim_start_matches(|c: char| c.is_ascii_digit());
        let number = line.find(|c: char| c.is_ascii_digit());
        assert_eq!(number, None, "no test compares it with the code: {line}");
    }
}
