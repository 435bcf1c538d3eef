//! The budget: what a check of a change has time for. Rounds with faults, every scene and every
//! mutant, and the poison, side by side.

use std::time::{Duration, Instant};

use clap::ValueEnum as _;
use redrive::Pooler;

use crate::Programs;
use crate::fault::Fault;
use crate::hunt;
use crate::playbill::{Play, play_all};
use crate::poison;
use crate::round::Round;

/// The seeds of the rounds, and how long each round is.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=5;
const ROUND: Duration = Duration::from_mins(1);
/// What a round costs, beside a scene: it has twice as many actors.
const ROUND_WEIGHT: usize = 2;
/// Jobs a second in each.
const RATE: u32 = 100;

/// Plays it, so many scenes at a time; whether nothing was found and every mutant was killed.
pub(crate) fn spend(programs: &Programs, at_once: usize) -> bool {
    let begin = Instant::now();
    if !hunt::fits() {
        return false;
    }
    // The longest first, so that the last ones to end are short.
    let mut plays: Vec<Play<'_, bool>> = SEEDS
        .map(|seed| Play {
            name: format!("seed {seed}"),
            weight: ROUND_WEIGHT,
            act: Box::new(move || {
                let round = Round {
                    programs,
                    seed,
                    length: ROUND,
                    faults: Fault::value_variants().to_vec(),
                    rate: RATE,
                    pooler: Pooler::Session,
                };
                round.play().is_green()
            }),
        })
        .collect();
    plays.push(Play {
        name: "poison".to_owned(),
        weight: ROUND_WEIGHT,
        act: Box::new(|| poison::isolate(programs)),
    });
    plays.extend(hunt::plays(programs, &[]));
    let all = plays.len();
    let played = play_all(plays, at_once);
    let red: Vec<&str> = played
        .iter()
        .filter(|play| play.ended != Ok(true))
        .map(|play| &*play.name)
        .collect();
    println!(
        "{} plays of {all}, {at_once} scenes at a time, {:.0} s of {:.0} s one after another: {} red {}",
        played.len(),
        begin.elapsed().as_secs_f64(),
        played
            .iter()
            .map(|play| play.took.as_secs_f64())
            .sum::<f64>(),
        red.len(),
        red.join(", "),
    );
    red.is_empty() && played.len() == all
}
