//! Which tests run which statements and functions.
//!
//! Each test runs once behind a proxy, on a database whose functions are counted. The result is kept
//! until the tests are built again.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use postgres::{Client, NoTls};
use serde::{Deserialize, Serialize};

use super::integration::{Integration, MIGRATED};
use super::parallel::{in_parallel, lock};
use super::proxy::{Proxy, database};
use super::source::{Origin, Source};

/// The file of the coverage, below the folder of the build.
const FILE: &str = "target/mutants/coverage.json";
/// A database whose functions are counted.
const COUNTED: &str = "redrive_mutants_counted";
/// How long a test may take. The slowest take half a minute on a busy machine.
const LIMIT: Duration = Duration::from_mins(5);
/// How long the sessions of a test may take to end.
const END: Duration = Duration::from_secs(10);
/// The harness sends this at the end of a test.
const DROP: &str = "DROP DATABASE ";

/// PostgreSQL counts no SQL function that it inlines, and it inlines none with a setting.
const COUNT: &str = "
    DO $$
    DECLARE
        function regprocedure;
    BEGIN
        FOR function IN
            SELECT p.oid::regprocedure
            FROM pg_proc p
            JOIN pg_language l ON l.oid = p.prolang
            WHERE p.pronamespace = 'redrive'::regnamespace AND l.lanname = 'sql'
        LOOP
            EXECUTE format('ALTER ROUTINE %s SET redrive.counted = ''1''', function);
        END LOOP;
    END
    $$";

/// The coverage of one test.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Covered {
    millis: u64,
    statements: BTreeSet<String>,
    functions: BTreeSet<String>,
}

/// The coverage of each test that passes without a mutant.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Coverage {
    /// The build of the tests.
    build: String,
    tests: BTreeMap<String, Covered>,
}

impl Coverage {
    /// Reads the coverage, or records it if the tests were built since.
    pub(super) fn of(
        integration: &Integration<'_>,
        sources: &[Source],
        places: usize,
    ) -> Result<Coverage> {
        let file = integration.root.join(FILE);
        let build = build(&integration.program)?;
        let read = fs::read_to_string(&file).ok();
        let known: Option<Coverage> = read.and_then(|text| serde_json::from_str(&text).ok());
        let known = known.filter(|known| known.build == build);
        let mut coverage = known.unwrap_or_default();
        coverage.build = build;
        // A test that failed is tried again.
        let mut new = integration.tests()?;
        new.retain(|test| !coverage.tests.contains_key(test));
        if !new.is_empty() {
            println!("    recording what {} tests run", new.len());
            let recorded = record(integration, sources, &new, places)?;
            coverage.tests.extend(recorded.into_iter().flatten());
            write(&file, &coverage)?;
        }
        Ok(coverage)
    }

    /// Returns the tests that run a source, each with its time. Those with its name come first, then
    /// the fast ones.
    pub(super) fn tests(&self, source: &Source) -> Vec<(&str, Duration)> {
        let mut tests: Vec<_> = self
            .tests
            .iter()
            .filter(|(_, covered)| covered.runs(source))
            .map(|(name, covered)| (&**name, Duration::from_millis(covered.millis)))
            .collect();
        tests.sort_by_key(|(name, time)| (!name.contains(&*source.name), *time));
        tests
    }
}

impl Covered {
    fn runs(&self, source: &Source) -> bool {
        match source.origin {
            Origin::Statement => self.statements.contains(&source.name),
            Origin::Function => self.functions.contains(&source.name),
        }
    }
}

/// Identifies a build: cargo writes a program again only if its sources changed.
fn build(program: &Path) -> Result<String> {
    let metadata = fs::metadata(program).context("cannot read the program of the tests")?;
    let written = metadata.modified()?.duration_since(UNIX_EPOCH)?;
    Ok(format!("{}, {written:?}", program.display()))
}

fn write(file: &Path, coverage: &Coverage) -> Result<()> {
    let folder = file.parent().context("a file in a folder")?;
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(file, serde_json::to_vec(coverage)?))
        .with_context(|| format!("cannot write {}", file.display()))
}

/// The functions that were counted in a test.
type Functions = Arc<Mutex<BTreeSet<String>>>;

/// Returns the coverage of tests, or `None` for each that fails.
fn record(
    integration: &Integration<'_>,
    sources: &[Source],
    tests: &[String],
    places: usize,
) -> Result<Vec<Option<(String, Covered)>>> {
    integration.copy(MIGRATED, COUNTED)?;
    integration.client(COUNTED)?.batch_execute(COUNT)?;
    let cluster = &integration.cluster;
    cluster.execute("ALTER SYSTEM SET track_functions = 'all'")?;
    cluster.execute("SELECT pg_reload_conf()")?;
    let place = |_: usize| {
        let functions = Functions::default();
        let (port, counted) = (integration.port(), Arc::clone(&functions));
        let observer = move |text: &str| {
            if let Some(database) = database(text, DROP) {
                // A database without the functions has no counts.
                lock(&counted).extend(count(port, database).unwrap_or_default());
            }
        };
        (Proxy::open(port, Box::new(observer)), functions)
    };
    let places = (0..places).map(place).collect();
    let recorded = in_parallel(places, tests, |(proxy, functions), test| {
        let start = Instant::now();
        let mut failure = integration.run(test, proxy.port(), COUNTED, LIMIT)?;
        let millis = u64::try_from(start.elapsed().as_millis())?;
        if failure.is_some() {
            // Plans differ where functions are counted.
            failure = integration.run(test, proxy.port(), MIGRATED, LIMIT)?;
        }
        let sent = proxy.take_sent();
        let statements = sources.iter().filter(|source| {
            source.origin == Origin::Statement
                && sent.iter().any(|text| text.contains(&source.text))
        });
        let covered = Covered {
            millis,
            statements: statements.map(|source| source.name.clone()).collect(),
            functions: std::mem::take(&mut *lock(functions)),
        };
        if let Some(failure) = failure {
            println!("    left out, because it fails without a mutant: {test}: {failure}");
            return Ok(None);
        }
        Ok(Some((test.clone(), covered)))
    });
    cluster.execute("ALTER SYSTEM RESET track_functions")?;
    cluster.execute("SELECT pg_reload_conf()")?;
    recorded
}

/// Returns the functions that ran in a database. Its sessions end first, because a session publishes
/// its last counts when it ends.
fn count(port: u16, database: &str) -> Result<Vec<String>, postgres::Error> {
    let url = |database: &str| format!("postgres://postgres@127.0.0.1:{port}/{database}");
    let mut server = Client::connect(&url("postgres"), NoTls)?;
    let end = Instant::now() + END;
    let ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1";
    while !server.query(ended, &[&database])?.is_empty() && Instant::now() < end {
        thread::sleep(Duration::from_millis(5));
    }
    let counted = "SELECT funcname::text FROM pg_stat_user_functions WHERE schemaname = 'redrive'";
    let rows = Client::connect(&url(database), NoTls)?.query(counted, &[])?;
    Ok(rows.iter().map(|row| row.get(0)).collect())
}
