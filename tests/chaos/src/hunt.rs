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
    let begin = Instant::now();
    let (records, findings) = scene.play(programs, mutant);
    let time = begin.elapsed().as_secs_f64();
    let told = report::told(&records, &findings);
    let Some(mutant) = mutant else {
        let is_green = findings.violations.is_empty();
        println!(
            "{time:>6.1} s  {scene:?} as it should be: {}",
            if is_green { "green" } else { "RED" }
        );
        println!(
            "          {}",
            if is_green {
                told.lines().next().unwrap_or_default()
            } else {
                &told
            }
        );
        return is_green;
    };
    let killer = findings
        .violations
        .iter()
        .find(|found| mutant.rules.contains(&found.rule));
    match killer {
        Some(found) => {
            println!(
                "{time:>6.1} s  {} killed by {} in {scene:?}: {}",
                mutant.name,
                found.rule.says().0,
                found.what
            );
            true
        }
        None => {
            println!("{time:>6.1} s  {} LIVES in {scene:?}: {told}", mutant.name);
            false
        }
    }
}
