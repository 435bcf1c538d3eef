//! The report of a run: each outcome, the counts, and what must change.

use std::fmt::Write as _;

use anyhow::{Result, ensure};

use super::accepted::{Accepted, FILE};
use super::mutant::SqlMutant;
use super::trial::Outcome;

/// Describes a mutant and its place.
pub(super) fn described(mutant: &SqlMutant<'_>) -> String {
    format!(
        "{} {}:{} {} {}\n               {}",
        mutant.id, mutant.source.path, mutant.line, mutant.operator, mutant.change, mutant.code,
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

/// A mutant with its outcome.
type Trial<'a> = (SqlMutant<'a>, Outcome);

/// Returns how many mutants had each outcome.
pub(super) fn counts(trials: &[Trial<'_>]) -> String {
    let (mut invalid, mut killed, mut survived) = (0, 0, 0);
    for (_, outcome) in trials {
        match outcome {
            Outcome::Invalid { .. } => invalid += 1,
            Outcome::Killed { .. } => killed += 1,
            Outcome::Survived { .. } => survived += 1,
        }
    }
    format!("{invalid} invalid, {killed} killed, {survived} survived")
}

/// Returns an error if a mutant survived without a reason, or if one with a reason did not.
pub(super) fn verdict(trials: &[Trial<'_>], accepted: &Accepted) -> Result<()> {
    let mut wrong = String::new();
    for (mutant, outcome) in trials {
        let what = match (outcome, accepted.has(mutant)) {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::mutants::mutant::mutants;
    use crate::mutants::source::Source;

    #[test]
    fn a_survivor_needs_a_reason_and_a_reason_needs_a_survivor() {
        let sources = [Source::statement("s", "SELECT a < b,\n c > d")];
        let mutants = mutants(&sources);
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
            let trials: Vec<_> = mutants.clone().into_iter().zip(outcomes).collect();
            verdict(&trials, &accepted).map_err(|error| error.to_string())
        };
        verdict(&survived, &killed).expect("as it should be");
        let error = verdict(&survived, &survived).expect_err("no reason");
        assert!(error.contains("write the missing test"), "{error}");
        let error = verdict(&killed, &killed).expect_err("not needed");
        assert!(error.contains("does not survive"), "{error}");
    }
}
