//! The hunt: every mutant in its scene, and every scene without one.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Mutex;
use std::thread;
use std::time::Instant;

use crate::mutant::{MUTANTS, Mutant, misfits};
use crate::report;
use crate::scene::Scene;

/// How many scenes are played at a time: they wait more than they work.
const AT_ONCE: usize = 3;

/// How often a mutant may escape: where in a statement the machine lets another one in is no part
/// of a scene.
const TRIES: u32 = 3;

/// Hunts all mutants, or those with these names; whether all are dead and all scenes green.
pub(crate) fn hunt(programs: &Path, only: &[String]) -> bool {
    let misfits = misfits();
    for misfit in &misfits {
        println!("a mutant does not fit any more, mend it: {misfit}");
    }
    if !misfits.is_empty() {
        return false;
    }
    let begin = Instant::now();
    let is_meant =
        |mutant: &&Mutant| only.is_empty() || only.iter().any(|name| name == mutant.name);
    let mutants: Vec<&Mutant> = MUTANTS.iter().filter(is_meant).collect();
    let mut scenes: Vec<Scene> = mutants.iter().map(|mutant| mutant.scene).collect();
    scenes.sort_unstable();
    scenes.dedup();
    let all = scenes.iter().map(|scene| (*scene, None));
    let all = all.chain(mutants.iter().map(|mutant| (mutant.scene, Some(*mutant))));
    let waiting: Mutex<VecDeque<(Scene, Option<&Mutant>)>> = Mutex::new(all.collect());
    let failures = Mutex::new(0);
    thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().expect("no player panics").pop_front();
                    let Some((scene, mutant)) = next else { return };
                    if !play(programs, scene, mutant) {
                        *failures.lock().expect("no player panics") += 1;
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().expect("no player panics");
    println!(
        "{} mutants, {} scenes without one, {:.0} s: {failures} failures",
        mutants.len(),
        scenes.len(),
        begin.elapsed().as_secs_f64()
    );
    failures == 0
}

/// Plays one; whether it ended as it should.
fn play(programs: &Path, scene: Scene, mutant: Option<&Mutant>) -> bool {
    match mutant {
        None => play_as_it_should_be(programs, scene),
        Some(mutant) => (1..=TRIES).any(|_| kills(programs, scene, mutant)),
    }
}

fn play_as_it_should_be(programs: &Path, scene: Scene) -> bool {
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

fn kills(programs: &Path, scene: Scene, mutant: &Mutant) -> bool {
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
