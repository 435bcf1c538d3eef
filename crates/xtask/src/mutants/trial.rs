//! The trial of a mutant: the tests that run it, until one fails.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context as _, Result};
use postgres::Client;
use postgres::types::Type;

use super::coverage::Coverage;
use super::integration::{Integration, MIGRATED};
use super::mutant::SqlMutant;
use super::parallel::{in_parallel, lock};
use super::proxy::{Proxy, database};
use super::source::Origin;

/// How much longer than without a mutant a test may take: a factor, and a time.
const PATIENCE: (u32, Duration) = (5, Duration::from_secs(10));
/// The harness sends this at the start of a test.
const CREATE: &str = "CREATE DATABASE ";

/// The result of a trial.
#[derive(Clone, Debug)]
pub(super) enum Outcome {
    /// PostgreSQL refuses it.
    Invalid { error: String },
    /// A test failed, or took too long.
    Killed { test: String, message: String },
    /// Every test passed.
    Survived { tests: usize },
}

/// A thread's own proxy and databases.
struct Place {
    proxy: Proxy,
    /// The template of the tests of a changed function.
    template: String,
    /// A connection to a migrated database, which prepares changed statements.
    client: Client,
}

/// Tries each mutant, and reports each outcome at once.
pub(super) fn outcomes(
    integration: &Integration<'_>,
    coverage: &Coverage,
    mutants: &[SqlMutant<'_>],
    places: usize,
    report: impl Fn(&SqlMutant<'_>, &Outcome) + Sync,
) -> Result<Vec<Outcome>> {
    let witnesses = Witnesses::default();
    let types: BTreeMap<&str, &[Type]> = redrive::statements()
        .map(|(name, _, types)| (name, types))
        .collect();
    let place = |number: usize| {
        let database = format!("redrive_mutants_prepared_{number}");
        integration.copy(MIGRATED, &database)?;
        Ok(Place {
            proxy: Proxy::open(integration.port(), Box::new(|_| ())),
            template: format!("redrive_mutants_changed_{number}"),
            client: integration.client(&database)?,
        })
    };
    let places = (0..places.min(mutants.len()))
        .map(place)
        .collect::<Result<Vec<_>>>()?;
    in_parallel(places, mutants, |place, mutant| {
        let outcome = place
            .outcome(integration, coverage, mutant, &types, &witnesses)
            .with_context(|| format!("cannot try the mutant {}", mutant.id))?;
        report(mutant, &outcome);
        Ok(outcome)
    })
}

impl Place {
    fn outcome(
        &mut self,
        integration: &Integration<'_>,
        coverage: &Coverage,
        mutant: &SqlMutant<'_>,
        types: &BTreeMap<&str, &[Type]>,
        witnesses: &Witnesses,
    ) -> Result<Outcome> {
        let (refused, template, patch) = match mutant.source.origin {
            Origin::Statement => {
                let types = types.get(&*mutant.source.name).copied().unwrap_or_default();
                let prepared = self.client.prepare_typed(&mutant.text, types);
                let patch = (mutant.source.text.clone(), mutant.text.clone());
                (prepared.err(), MIGRATED, Some(patch))
            }
            Origin::Function => {
                integration.copy(MIGRATED, &self.template)?;
                let mut client = integration.client(&self.template)?;
                let created = client.batch_execute(&mutant.text);
                (created.err(), &*self.template, None)
            }
        };
        if let Some(error) = refused {
            let error = error.as_db_error().context("the server does not answer")?;
            let error = error.message().to_owned();
            return Ok(Outcome::Invalid { error });
        }
        let tests = coverage.tests(mutant.source);
        for (test, time) in &tests {
            let limit = *time * PATIENCE.0 + PATIENCE.1;
            self.proxy.patch(patch.clone());
            let failure = integration.run(test, self.proxy.port(), template, limit)?;
            let sent = self.proxy.take_sent();
            let Some(message) = failure else { continue };
            for left in sent.iter().filter_map(|text| database(text, CREATE)) {
                integration.cluster.drop_database(left)?;
            }
            self.proxy.patch(None);
            let run = || integration.run(test, self.proxy.port(), MIGRATED, limit);
            if witnesses.is_reliable(test, run)? {
                let test = (*test).to_owned();
                return Ok(Outcome::Killed { test, message });
            }
        }
        Ok(Outcome::Survived { tests: tests.len() })
    }
}

/// The tests that killed a mutant, and whether each passes without one.
#[derive(Debug, Default)]
struct Witnesses(Mutex<BTreeMap<String, bool>>);

impl Witnesses {
    /// Returns whether a test passes without a mutant. Runs it once.
    fn is_reliable(
        &self,
        test: &str,
        run: impl FnOnce() -> Result<Option<String>>,
    ) -> Result<bool> {
        let known = lock(&self.0).get(test).copied();
        if let Some(known) = known {
            return Ok(known);
        }
        let failure = run()?;
        if let Some(failure) = &failure {
            println!("    left out, because it fails without a mutant: {test}: {failure}");
        }
        lock(&self.0).insert(test.to_owned(), failure.is_none());
        Ok(failure.is_none())
    }
}
