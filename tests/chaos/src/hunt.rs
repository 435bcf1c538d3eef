//! The hunt: every mutant in its scene, and every scene without one.

use std::time::Instant;

use clap::ValueEnum as _;

use crate::Programs;
use crate::mutant::{MUTANTS, Mutant, misfits};
use crate::playbill::{Play, play_all};
use crate::report;
use crate::scene::Scene;

/// How many scenes are played at a time: they wait more than they work.
const AT_ONCE: usize = 3;

/// How often a mutant may escape: where in a statement the machine lets another one in is no part
/// of a scene.
const TRIES: u32 = 3;

/// Whether every mutant still fits what it changes; says which do not.
pub(crate) fn fits() -> bool {
    let misfits = misfits();
    for misfit in &misfits {
        println!("a mutant does not fit any more, mend it: {misfit}");
    }
    misfits.is_empty()
}

/// Hunts all mutants, or those with these names; whether all are dead and all scenes green.
pub(crate) fn hunt(programs: &Programs, only: &[String]) -> bool {
    if !fits() {
        return false;
    }
    let begin = Instant::now();
    let plays = plays(programs, only);
    let all = plays.len();
    let played = play_all(plays, AT_ONCE);
    let red: Vec<&str> = played
        .iter()
        .filter(|play| play.ended != Ok(true))
        .map(|play| &*play.name)
        .collect();
    println!(
        "{} scenes of {all}, {:.0} s: {} failures {}",
        played.len(),
        begin.elapsed().as_secs_f64(),
        red.len(),
        red.join(", "),
    );
    red.is_empty() && played.len() == all
}

/// The mutants with these names, or all, each in its scene; and each of these scenes without one, as
/// well as those that are named.
pub(crate) fn plays<'a>(programs: &'a Programs, only: &[String]) -> Vec<Play<'a, bool>> {
    let is_meant =
        |mutant: &&Mutant| only.is_empty() || only.iter().any(|name| name == mutant.name);
    let mutants: Vec<&Mutant> = MUTANTS.iter().filter(is_meant).collect();
    let mut scenes: Vec<Scene> = mutants.iter().map(|mutant| mutant.scene).collect();
    let is_named = |scene: &Scene| {
        let name = scene.to_possible_value();
        name.is_some_and(|name| only.iter().any(|only| only == name.get_name()))
    };
    scenes.extend(Scene::value_variants().iter().copied().filter(is_named));
    // No mutant needs it.
    scenes.extend(only.is_empty().then_some(Scene::Pooler));
    scenes.sort_unstable();
    scenes.dedup();
    let scenes = scenes.into_iter().map(|scene| Play {
        name: format!("{scene:?}"),
        weight: 1,
        act: Box::new(move || play_as_it_should_be(programs, scene))
            as Box<dyn Fn() -> bool + Send>,
    });
    let mutants = mutants.into_iter().map(|mutant| Play {
        name: mutant.name.to_owned(),
        weight: 1,
        act: Box::new(move || (1..=TRIES).any(|_| kills(programs, mutant.scene, mutant))),
    });
    scenes.chain(mutants).collect()
}

fn play_as_it_should_be(programs: &Programs, scene: Scene) -> bool {
    let begin = Instant::now();
    let (records, findings) = scene.play(programs, None);
    let time = begin.elapsed().as_secs_f64();
    let told = report::told(&records, &findings);
    let is_green = findings.violations.is_empty();
    let (word, told) = match is_green {
        true => ("green", told.lines().next().unwrap_or_default()),
        false => ("RED", told.as_str()),
    };
    println!("{time:>6.1} s  {scene:?} as it should be: {word}\n          {told}");
    is_green
}

fn kills(programs: &Programs, scene: Scene, mutant: &Mutant) -> bool {
    let begin = Instant::now();
    let (records, findings) = scene.play(programs, Some(mutant));
    let (time, name) = (begin.elapsed().as_secs_f64(), mutant.name);
    let mut found = findings.violations.iter();
    match found.find(|found| mutant.rules.contains(&found.rule)) {
        Some(found) => {
            let (rule, what) = (found.rule.says().0, &found.what);
            println!("{time:>6.1} s  {name} killed by {rule} in {scene:?}: {what}");
            true
        }
        None => {
            let told = report::told(&records, &findings);
            println!("{time:>6.1} s  {name} LIVES in {scene:?}: {told}");
            false
        }
    }
}
