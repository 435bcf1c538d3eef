//! The numbers of GUARANTEES.md equal those of the code and the schema.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use redrive_tests::TestDatabase;

use super::{quoted, read};

/// A row of the table of numbers.
#[derive(Debug)]
struct Row {
    name: String,
    /// The values, default first, as they are written.
    values: Vec<String>,
    place: String,
}

impl Row {
    /// Whether the number is defined in the schema, and not in a source file.
    fn is_in_schema(&self) -> bool {
        !self.place.contains(".rs`")
    }
}

fn table() -> Vec<Row> {
    let page = read("GUARANTEES.md");
    let (_, numbers) = page.split_once("## Numbers\n").expect("the numbers");
    numbers
        .lines()
        .filter(|line| line.starts_with("| *"))
        .map(|line| {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            let [name, usual, within, place] = cells[..] else {
                panic!("not four columns: {line}")
            };
            let values = [usual]
                .into_iter()
                .chain(within.split(" to "))
                .map(|value| value.trim_start_matches("at most "))
                .map(|value| {
                    value
                        .trim_end_matches(" characters")
                        .trim_end_matches(", up or down")
                })
                .filter(|value| !value.is_empty())
                .map(str::to_owned)
                .collect();
            Row {
                name: name.trim_matches('*').to_owned(),
                values,
                place: place.to_owned(),
            }
        })
        .collect()
}

/// Returns the number in the largest unit that divides it.
fn formatted(amount: Amount) -> String {
    match amount {
        Amount::Time(time) => {
            let ms = time.as_millis();
            let (day, hour, minute) = (86_400_000, 3_600_000, 60_000);
            match ms {
                _ if ms % day == 0 && ms > day => format!("{} days", grouped(ms / day)),
                _ if ms % hour == 0 => format!("{} h", ms / hour),
                _ if ms % minute == 0 => format!("{} min", ms / minute),
                _ if ms % 1000 == 0 => format!("{} s", ms / 1000),
                _ => format!("{ms} ms"),
            }
        }
        Amount::Bytes(bytes) => match bytes {
            _ if bytes % (1 << 20) == 0 => format!("{} MiB", bytes >> 20),
            _ if bytes % (1 << 10) == 0 => format!("{} KiB", bytes >> 10),
            _ => format!("{bytes} bytes"),
        },
        Amount::Count(count) => grouped(count),
    }
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
    Time(Duration),
    Bytes(u128),
    Count(u128),
}

/// Returns the value of a constant in the source of the library.
fn constant(file: &str, name: &str) -> Amount {
    let source = read(&format!("crates/redrive/src/{file}"));
    if name.ends_with("_timeout") {
        // A setting of the sessions of a worker.
        let setting = format!("(\"{name}\", \"'");
        let (_, value) = source.split_once(&setting).expect("a setting");
        let (seconds, _) = value.split_once('s').expect("a unit");
        return Amount::Time(Duration::from_secs(seconds.parse().expect("seconds")));
    }
    let head = format!("const {name}: ");
    let mut found = source.lines().filter(|line| line.contains(&head));
    let line = found
        .next()
        .unwrap_or_else(|| panic!("{file} has no constant {name}"));
    assert_eq!(found.next(), None, "{file} has two constants {name}");
    let (_, written) = line.split_once(" = ").expect("a value");
    let value = written.trim_end_matches(';');
    let number = |text: &str| -> u128 {
        text.split('*')
            .map(|factor| factor.trim().replace('_', ""))
            .map(|factor| factor.parse::<u128>().expect("a number"))
            .product()
    };
    if let Some(time) = value.strip_prefix("Duration::from_") {
        let (unit, amount) = time
            .trim_end_matches(')')
            .split_once('(')
            .expect("a duration");
        let amount = u64::try_from(number(amount)).expect("64 bits");
        return Amount::Time(match unit {
            "millis" => Duration::from_millis(amount),
            "secs" => Duration::from_secs(amount),
            "mins" => Duration::from_mins(amount),
            "hours" => Duration::from_hours(amount),
            _ => panic!("{line}"),
        });
    }
    if let Some(added_to_one) = value.strip_prefix("NonZeroU32::MIN.saturating_add(") {
        return Amount::Count(1 + number(added_to_one.trim_end_matches(')')));
    }
    match name {
        _ if name.ends_with("_MS") => {
            let ms = u64::try_from(number(value)).expect("64 bits");
            Amount::Time(Duration::from_millis(ms))
        }
        _ if name.ends_with("_BYTES") => Amount::Bytes(number(value)),
        _ => Amount::Count(number(value)),
    }
}

/// Returns the values of a row in the code: constants of a file, added if there is a `+`.
fn in_the_code(place: &str) -> Vec<Amount> {
    let mut amounts = Vec::new();
    for summed in place.split(", ") {
        let mut sum: Option<Amount> = None;
        for part in summed.split(" + ") {
            let file = quoted(part)
                .chain(quoted(place))
                .find(|word| Path::new(word).extension().is_some())
                .expect("a file");
            let name = quoted(part).last().expect("the name of a constant");
            let amount = constant(file, name);
            sum = Some(match (sum, amount) {
                (None, amount) => amount,
                (Some(Amount::Time(one)), Amount::Time(other)) => Amount::Time(one + other),
                (Some(one), other) => panic!("{one:?} and {other:?} cannot be added"),
            });
        }
        amounts.extend(sum);
    }
    amounts
}

#[test]
fn every_number_equals_its_constant_in_the_code() {
    let table = table();
    assert!(table.len() > 40, "only {} numbers", table.len());
    let mut names = BTreeSet::new();
    for row in &table {
        assert!(names.insert(&row.name), "{} is listed twice", row.name);
        if row.is_in_schema() {
            continue;
        }
        let ours: Vec<String> = in_the_code(&row.place).into_iter().map(formatted).collect();
        assert_eq!(row.values, ours, "{}", row.name);
    }
}

#[test]
fn every_number_of_the_schema_equals_its_value_in_the_database() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    let mut ask = |question: &str| -> i64 { client.query_one(question, &[]).unwrap().get(0) };
    let rows = table();
    let rows: Vec<&Row> = rows.iter().filter(|row| row.is_in_schema()).collect();
    for row in &rows {
        let value = match &*row.place {
            "`redrive.reopen`" if row.name == "failed redrives" => {
                ask("SELECT (regexp_match(pg_get_functiondef(p.oid), \
                     'NEW.failed_redrives >= ([0-9]+) '))[1]::bigint \
                 FROM pg_proc p WHERE p.oid::regproc::text = 'redrive.reopen'")
            }
            "`redrive.enqueue`" => ask("SELECT (regexp_match(pg_get_function_arguments(p.oid), \
                     'max_attempts integer DEFAULT ([0-9]+)'))[1]::bigint \
                 FROM pg_proc p WHERE p.oid::regproc::text = 'redrive.enqueue'"),
            "`redrive.reopen`" => ask("SELECT (regexp_match(pg_get_functiondef(p.oid), \
                     'NEW.alike >= ([0-9]+) '))[1]::bigint \
                 FROM pg_proc p WHERE p.oid::regproc::text = 'redrive.reopen'"),
            // Tests the behaviour: of thirty attempts, it keeps this many.
            "`redrive.add_attempt`" => ask("WITH RECURSIVE kept (attempt, history) AS ( \
                         VALUES (0, NULL::jsonb) UNION ALL \
                         SELECT attempt + 1, redrive.add_attempt(history, jsonb_build_object( \
                             'attempt', attempt + 1, 'run_ms', 1, 'ended_at', now())) \
                         FROM kept WHERE attempt < 30) \
                     SELECT jsonb_array_length(history)::bigint FROM kept WHERE attempt = 30"),
            "`redrive.is_seen_drained`" => ask("SELECT (regexp_match(pg_get_functiondef(p.oid), \
                     'interval ''([0-9]+) seconds'''))[1]::bigint \
                 FROM pg_proc p WHERE p.oid::regproc::text = 'redrive.is_seen_drained'"),
            "`redrive.prune_audit`" => ask("SELECT (regexp_match(pg_get_functiondef(p.oid), \
                     'older_than < ''([0-9]+) days'''))[1]::bigint \
                 FROM pg_proc p WHERE p.oid::regproc::text = 'redrive.prune_audit'"),
            other => panic!("no query for {other}"),
        };
        let values: Vec<&str> = row
            .values
            .iter()
            .map(|value| value.trim_end_matches(" s").trim_end_matches(" days"))
            .collect();
        assert_eq!(values, [value.to_string()], "{}", row.name);
    }
    assert_eq!(rows.len(), 6);
}

#[test]
fn the_text_uses_only_numbers_from_the_table() {
    let page = read("GUARANTEES.md");
    let (text, _) = page.split_once("## Numbers\n").expect("the numbers");
    let table = table();
    let mut used = BTreeSet::new();
    for line in text.lines() {
        let plain: String = line.split('`').step_by(2).collect();
        let plain = plain.replace("**", "");
        let mut parts = plain.split('*');
        let mut prose = parts.next().unwrap_or_default().to_owned();
        while let (Some(name), Some(rest)) = (parts.next(), parts.next()) {
            let row = table.iter().find(|row| row.name == name);
            let stated = rest
                .strip_prefix(" (")
                .and_then(|stated| stated.split_once(')'));
            match (row, stated) {
                // `*lease* (1 min)` states the default, or the limit where there is no default.
                (Some(row), Some((value, after))) => {
                    assert_eq!(
                        row.values.first().map(String::as_str),
                        Some(value),
                        "*{name}*"
                    );
                    prose.push_str(after);
                }
                (Some(_), None) => prose.push_str(rest),
                (None, _) => {
                    assert!(
                        ["italics", "unavailable"].contains(&name),
                        "no number is called *{name}*"
                    );
                    prose.push_str(rest);
                }
            }
            used.insert(name.to_owned());
        }
        let prose = prose
            .trim_start_matches("### P")
            .trim_start_matches(|c: char| c.is_ascii_digit());
        assert!(
            !prose.contains(|c: char| c.is_ascii_digit()),
            "a number that no test compares with the code: {line}"
        );
    }
    assert!(used.len() > 20, "{used:?}");
}
