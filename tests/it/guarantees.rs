//! GUARANTEES.md: its numbers are those of the code, and what it names exists.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use redrive::{Database, Job, Queue};
use redrive_tests::{Cluster, Gate, Hold, SOON, TestDatabase, counted, stop, wait_until, worker};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the root of the repository")
        .to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A row of the table of numbers.
#[derive(Debug)]
struct Published {
    name: String,
    /// The values, default first, as they are written.
    values: Vec<String>,
    place: String,
}

impl Published {
    /// Whether it is written in the schema, and not in a file.
    fn is_of_the_schema(&self) -> bool {
        !self.place.contains(".rs`")
    }
}

fn table() -> Vec<Published> {
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
            Published {
                name: name.trim_matches('*').to_owned(),
                values,
                place: place.to_owned(),
            }
        })
        .collect()
}

/// What is between backquotes.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// A number as people write it: the largest unit that it is a whole number of.
fn told(amount: Amount) -> String {
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

/// With a comma between thousands.
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

/// A constant of the library, as its source says.
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
        let amount = u64::try_from(number(amount)).expect("a short one");
        return Amount::Time(match unit {
            "millis" => Duration::from_millis(amount),
            "secs" => Duration::from_secs(amount),
            "mins" => Duration::from_mins(amount),
            "hours" => Duration::from_hours(amount),
            _ => panic!("{line}"),
        });
    }
    if let Some(beyond_one) = value.strip_prefix("NonZeroU32::MIN.saturating_add(") {
        return Amount::Count(1 + number(beyond_one.trim_end_matches(')')));
    }
    match name {
        _ if name.ends_with("_MS") => {
            let ms = u64::try_from(number(value)).expect("a short one");
            Amount::Time(Duration::from_millis(ms))
        }
        _ if name.ends_with("_BYTES") => Amount::Bytes(number(value)),
        _ => Amount::Count(number(value)),
    }
}

/// The values of a row, as the code has them: constants of a file, added where a `+` says so.
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
fn every_number_is_the_one_in_the_code() {
    let table = table();
    assert!(table.len() > 40, "only {} numbers", table.len());
    let mut names = BTreeSet::new();
    for row in &table {
        assert!(names.insert(&row.name), "{} is there twice", row.name);
        if row.is_of_the_schema() {
            continue;
        }
        let ours: Vec<String> = in_the_code(&row.place).into_iter().map(told).collect();
        assert_eq!(row.values, ours, "{}", row.name);
    }
}

#[test]
fn every_number_of_the_schema_is_the_one_in_the_database() {
    let test = TestDatabase::migrated();
    let mut client = test.client();
    let mut ask = |question: &str| -> i64 { client.query_one(question, &[]).unwrap().get(0) };
    let rows = table();
    let rows: Vec<&Published> = rows.iter().filter(|row| row.is_of_the_schema()).collect();
    for row in &rows {
        let value = match &*row.place {
            "`redrive.enqueue`" => ask("SELECT (regexp_match(pg_get_function_arguments(p.oid), \
                     'max_attempts integer DEFAULT ([0-9]+)'))[1]::bigint \
                 FROM pg_proc p WHERE p.oid::regproc::text = 'redrive.enqueue'"),
            "`redrive.reopen`" => ask("SELECT (regexp_match(pg_get_functiondef(p.oid), \
                     'IF NEW.alike >= ([0-9]+) '))[1]::bigint \
                 FROM pg_proc p WHERE p.oid::regproc::text = 'redrive.reopen'"),
            // Not how it is written, but what it does: thirty attempts, of which it keeps these.
            "`redrive.remember`" => ask("WITH RECURSIVE told (attempt, history) AS ( \
                         VALUES (0, NULL::jsonb) UNION ALL \
                         SELECT attempt + 1, redrive.remember(history, jsonb_build_object( \
                             'attempt', attempt + 1, 'run_ms', 1, 'ended_at', now())) \
                         FROM told WHERE attempt < 30) \
                     SELECT jsonb_array_length(history)::bigint FROM told WHERE attempt = 30"),
            other => panic!("nobody knows how to ask for {other}"),
        };
        assert_eq!(row.values, [value.to_string()], "{}", row.name);
    }
    assert_eq!(rows.len(), 3);
}

#[test]
fn the_text_has_no_number_of_its_own() {
    let page = read("GUARANTEES.md");
    let (text, _) = page.split_once("## Numbers\n").expect("the numbers");
    let names: BTreeSet<String> = table().into_iter().map(|row| row.name).collect();
    let mut used = BTreeSet::new();
    for line in text.lines() {
        let plain: String = line.split('`').step_by(2).collect();
        let said = plain
            .trim_start_matches("### P")
            .trim_start_matches(|c: char| c.is_ascii_digit());
        assert!(
            !said.contains(|c: char| c.is_ascii_digit()),
            "a number that no test knows: {line}"
        );
        let plain = plain.replace("**", "");
        for name in plain.split('*').skip(1).step_by(2) {
            if name == "italics" || name == "unavailable" {
                continue;
            }
            assert!(names.contains(name), "no number is called *{name}*");
            used.insert(name.to_owned());
        }
    }
    assert!(used.len() > 20, "{used:?}");
}

/// What the promises name, apart by what it is.
struct Named {
    tests: BTreeSet<String>,
    rules: BTreeSet<String>,
    faults: BTreeSet<String>,
    mutants: BTreeSet<String>,
}

fn named() -> Named {
    let page = read("GUARANTEES.md");
    let all = |kind: &str| {
        page.lines()
            .filter(|line| line.starts_with(kind))
            .flat_map(quoted)
            .map(str::to_owned)
            .collect()
    };
    Named {
        tests: all("- tests: "),
        rules: all("- rules: "),
        faults: all("- faults: "),
        mutants: all("- mutants: "),
    }
}

#[test]
fn every_promise_is_tested_and_every_test_exists() {
    let page = read("GUARANTEES.md");
    let (_, promises) = page.split_once("## What it promises\n").expect("promises");
    let (promises, _) = promises.split_once("\n## ").expect("their end");
    let promises: Vec<&str> = promises.split("\n### ").skip(1).collect();
    assert!(promises.len() >= 15, "{}", promises.len());
    for (number, promise) in (1..).zip(&promises) {
        assert!(promise.starts_with(&format!("P{number}. ")), "{promise}");
        assert!(promise.contains("\n- tests: `"), "{promise}");
        assert!(promise.contains("\n- faults: `"), "{promise}");
    }
    for name in named().tests {
        exists(&name);
    }
}

#[test]
fn every_test_that_the_security_page_names_exists() {
    let page = read("SECURITY.md");
    let tests: Vec<&str> = page
        .lines()
        .filter(|line| line.starts_with("- "))
        .flat_map(quoted)
        .filter(|name| name.contains("::"))
        .collect();
    assert!(tests.len() > 20, "{tests:?}");
    for name in tests {
        exists(name);
    }
}

/// Fails unless there is a test of this name.
#[track_caller]
fn exists(name: &str) {
    let (module, test) = name.rsplit_once("::").expect("a module and a test");
    let source = read(&format!("tests/it/{}.rs", module.replace("::", "/")));
    assert!(
        source.contains(&format!("#[test]\nfn {test}()")),
        "`{name}` does not exist"
    );
}

#[test]
fn every_rule_fault_and_mutant_is_named_by_a_promise_and_no_other() {
    let named = named();
    let rules = read("tests/chaos/src/checker.rs");
    let (_, rules) = rules.split_once("fn says(").expect("the rules");
    let (rules, _) = rules.split_once("\n    }\n").expect("their end");
    let rules: BTreeSet<String> = rules
        .split('"')
        .skip(1)
        .step_by(2)
        .filter(|text| !text.contains(' '))
        .map(str::to_owned)
        .collect();
    assert_eq!(named.rules, rules);

    let faults = read("tests/chaos/src/fault.rs");
    let (_, faults) = faults.split_once("enum Fault {").expect("the faults");
    let (faults, _) = faults.split_once("\n}").expect("their end");
    let faults: BTreeSet<String> = faults
        .lines()
        .map(|line| line.trim().trim_end_matches(','))
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .map(kebab)
        // A promise cannot be kept by a standby that has not heard of it.
        .filter(|fault| fault != "promote")
        .collect();
    assert!(faults.len() > 15, "{faults:?}");
    assert_eq!(named.faults, faults);

    let mutants = read("tests/chaos/src/mutant.rs");
    let mutants: BTreeSet<String> = mutants
        .lines()
        .filter_map(|line| line.trim().strip_prefix("name: \""))
        .map(|line| line.trim_end_matches("\",").to_owned())
        .collect();
    assert!(mutants.len() >= 31, "{}", mutants.len());
    assert_eq!(named.mutants, mutants);
}

/// The name of a variant as the command line has it.
fn kebab(variant: &str) -> String {
    let mut name = String::new();
    for character in variant.chars() {
        if character.is_uppercase() && !name.is_empty() {
            name.push('-');
        }
        name.extend(character.to_lowercase());
    }
    name
}

#[test]
fn nobody_is_promised_exactly_once_without_saying_where() {
    for file in ["GUARANTEES.md", "README.md"] {
        for paragraph in read(file).split("\n\n") {
            let paragraph = paragraph.to_lowercase();
            assert!(
                !paragraph.contains("exactly once")
                    || paragraph.contains("same database")
                    || paragraph.contains("not run a handler exactly once"),
                "{file}: {paragraph}"
            );
        }
    }
}

#[test]
fn a_call_to_a_silent_server_ends_within_its_deadline() {
    let cluster = Cluster::new();
    cluster.start();
    cluster.migrate();
    let deadline = Duration::from_secs(2);
    let db = Database::builder(&cluster.url())
        .call_timeout(deadline)
        .open()
        .unwrap();
    let queue = Queue::new(&db, "orders").unwrap();
    assert!(queue.is_drained().unwrap());
    let silence = cluster.silence();
    let asked = Instant::now();
    let error = queue.is_drained().expect_err("nobody answers");
    let took = asked.elapsed();
    assert!(error.is_unavailable(), "{error:?}");
    // What bounds it otherwise, if anything, is many times that.
    assert!(took < 4 * deadline, "{took:?}");
    drop(silence);
    assert!(queue.is_drained().expect("it goes on by itself"));
}

#[test]
fn nothing_is_held_while_a_handler_runs() {
    let test = TestDatabase::migrated();
    let queue = test.queue("orders");
    let gate = Gate::new();
    let worker = worker(&queue)
        .handle({
            let gate = gate.clone();
            move |_: &Job<Hold>| {
                gate.pass();
                Ok(())
            }
        })
        .start()
        .unwrap();
    queue.enqueue(&Hold {}).unwrap();
    gate.wait_for(1);
    // Statements of the worker come and go; what is held for the handler stays.
    let held = "SELECT count(*) FROM pg_stat_activity a \
                WHERE a.datname = current_database() AND a.pid <> pg_backend_pid() \
                    AND (a.state LIKE 'idle in transaction%' OR EXISTS ( \
                        SELECT FROM pg_locks l WHERE l.pid = a.pid AND l.locktype = 'advisory'))";
    let mut client = test.client();
    wait_until("nobody to hold a transaction or a lock", SOON, || {
        client.query_one(held, &[]).unwrap().get::<_, i64>(0) == 0
    });
    gate.open();
    counted(&worker, "the job to be done", |counts| counts.done == 1);
    stop(worker);
}
