//! The report of a run: each outcome, the counts, and what must change.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};

use anyhow::{Result, ensure};

use super::accepted::{Accepted, FILE};
use super::mutant::SqlMutant;
use super::trial::Outcome;

/// Describes a mutant and its place.
pub(super) fn described(mutant: &SqlMutant<'_>) -> String {
    format!(
        "{} {}:{} {} {}\n               {}",
        mutant.id,
        mutant.source.path,
        mutant.line,
        mutant.operator.name(),
        mutant.change,
        mutant.code,
    )
}

/// Describes an outcome in a few lines.
pub(super) fn outcome(mutant: &SqlMutant<'_>, outcome: &Outcome) -> String {
    let mutant = described(mutant);
    match outcome {
        Outcome::Invalid { error } => format!("invalid   {mutant}\n               {error}"),
        Outcome::Killed { test, message } => {
            format!("killed    {mutant}\n               by {test}: {message}")
        }
        Outcome::Survived { tests: 0 } => {
            format!("SURVIVED  {mutant}\n               no test runs it")
        }
        Outcome::Survived { tests } => {
            format!("SURVIVED  {mutant}\n               {tests} tests passed")
        }
    }
}

/// The mutants of a run with their outcomes.
#[derive(Debug)]
pub(super) struct Report<'a> {
    pub(super) trials: Vec<(SqlMutant<'a>, Outcome)>,
    pub(super) accepted: Accepted,
}

impl Report<'_> {
    /// Returns the counts of each operator, and of all.
    pub(super) fn table(&self) -> String {
        let (mut rows, mut all) = (BTreeMap::<String, [usize; 4]>::new(), [0; 4]);
        for (mutant, outcome) in &self.trials {
            let column = match outcome {
                Outcome::Invalid { .. } => 1,
                Outcome::Killed { .. } => 2,
                Outcome::Survived { .. } => 3,
            };
            for counts in [rows.entry(mutant.operator.name()).or_default(), &mut all] {
                counts[0] += 1;
                counts[column] += 1;
            }
        }
        let line = |name: &str, columns: [&dyn Display; 4]| {
            let columns = columns.map(|column| format!("{column:>10}"));
            format!("{name:<18}{}\n", columns.concat())
        };
        let head = line("", [&"generated", &"invalid", &"killed", &"survived"]);
        let rows = rows.into_iter().chain([("all".to_owned(), all)]);
        let rows = rows.map(|(name, [a, b, c, d])| line(&name, [&a, &b, &c, &d]));
        std::iter::once(head).chain(rows).collect()
    }

    /// Returns an error if a mutant survived without a reason, or if one with a reason did not.
    pub(super) fn verdict(&self) -> Result<()> {
        let mut wrong = String::new();
        for (mutant, outcome) in &self.trials {
            let is_accepted = self.accepted.reason(mutant).is_some();
            let what = match (outcome, is_accepted) {
                (Outcome::Survived { .. }, false) => {
                    format!("write the missing test, or a reason in {FILE}")
                }
                (Outcome::Survived { .. }, true) | (_, false) => continue,
                (_, true) => format!("it does not survive; remove it from {FILE}"),
            };
            _ = write!(wrong, "\n{}\n               {what}", described(mutant));
        }
        ensure!(wrong.is_empty(), "mutants need attention:{wrong}");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::mutants::mutant::mutants;
    use crate::mutants::operators::Types;
    use crate::mutants::source::Source;

    #[test]
    fn a_survivor_needs_a_reason_and_a_reason_needs_a_survivor() {
        let sources = [Source::statement("s", "SELECT a < b,\n c > d")];
        let mutants = mutants(&sources, &Types::new());
        let entry = json!([{
            "id": mutants[0].id, "name": "s", "change": mutants[0].change, "reason": "equal",
        }]);
        let accepted = Accepted::parse(&entry.to_string(), &mutants).expect("an entry");
        let survived = Outcome::Survived { tests: 3 };
        let killed = Outcome::Killed {
            test: "t".to_owned(),
            message: "m".to_owned(),
        };
        let verdict = |first: &Outcome, second: &Outcome| {
            let outcomes = [first.clone(), second.clone()];
            let report = Report {
                trials: mutants.clone().into_iter().zip(outcomes).collect(),
                accepted: accepted.clone(),
            };
            report.verdict().map_err(|error| error.to_string())
        };
        verdict(&survived, &killed).expect("as it should be");
        let error = verdict(&survived, &survived).expect_err("no reason");
        assert!(error.contains("write the missing test"), "{error}");
        let error = verdict(&killed, &killed).expect_err("not needed");
        assert!(error.contains("does not survive"), "{error}");
    }
}
