//! Checks the ticks of policies: when they run, and which letters they redrive.

use std::collections::HashMap;

use crate::checker::{Findings, Rule, Run, grouped};
use crate::clock::micros;
use crate::db_trace::LetterRow;
use crate::role::standing::{BATCH, GENERATIONS, INTERVAL};

pub(super) fn check(run: &Run<'_>, findings: &mut Findings) {
    let records = run.records;
    let interval = micros(INTERVAL);
    let mut sent = sent(&records.letters);
    let mut next: HashMap<i64, i64> = HashMap::new();
    for tick in &records.policy_ticks {
        let letters = sent.remove(&(tick.tx, tick.policy)).unwrap_or_default();
        let count = i64::try_from(letters.len()).unwrap_or(i64::MAX);
        let mut broken = |is_broken: bool, text: String| {
            if is_broken {
                findings.add(Rule::PolicyTick, None, tick.began, text);
            }
        };
        broken(
            count != tick.letters || count > i64::from(BATCH),
            format!(
                "its tick redrove {count} letters, but says {}",
                tick.letters
            ),
        );
        // A fault may cancel its statements. It then redrives nothing, and is tried again.
        broken(
            tick.error.is_some() && records.terms.is_calm,
            format!("its tick failed: {:?}", tick.error),
        );
        broken(
            !tick.process.starts_with("worker") || tick.began < tick.due,
            format!("{} ran it {} µs early", tick.process, tick.due - tick.began),
        );
        // A tick that was missed is not run later. The next one was computed just before this one began.
        let is_next = match tick.error {
            Some(_) => tick.next == tick.due,
            None => {
                let ahead = tick.next - tick.due;
                ahead > 0 && ahead % interval == 0 && tick.next - tick.began <= interval
            }
        };
        broken(
            !is_next,
            format!("after {}, the next one is at {}", tick.due, tick.next),
        );
        let expected = next.insert(tick.policy, tick.next);
        broken(
            expected.is_some_and(|next| next != tick.due),
            format!("it ran for {}, which is not the next tick", tick.due),
        );
        for letter in letters {
            if letter.counts.generation >= GENERATIONS.cast_signed() {
                let text = format!("a policy redrove generation {}", letter.counts.generation);
                findings.add(Rule::PolicyTick, letter.letter, letter.at, text);
            }
        }
    }
    for letter in sent.into_values().flatten() {
        let text = "a policy redrove it without a tick";
        findings.add(Rule::PolicyTick, letter.letter, letter.at, text);
    }
}

/// Returns the letters that policies redrove, by transaction and policy.
fn sent(rows: &[LetterRow]) -> HashMap<(i64, i64), Vec<&LetterRow>> {
    let sent = rows.iter().filter(|row| row.is_sent());
    grouped(sent.filter_map(|row| Some(((row.tx, row.policy?), row))))
}
