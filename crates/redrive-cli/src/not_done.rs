//! Letters or jobs that a command did not change: a line for each, or for each cause if there are many.

use std::collections::BTreeMap;

use redrive::JobId;
use redrive::dlq::{Letter, LetterFilter, LetterState};
use serde_json::Value;

use crate::prelude::*;

/// How many letters have one line each, and how many are named in the line of a cause.
const NAMED: usize = 5;
/// How many letters a filter names, which has at most 1 MiB.
const READ: usize = 10_000;
/// How many causes have a line: error messages may all differ.
const CAUSES: usize = 20;

/// Why a letter or job did not change: in one word for JSON, and as text.
pub(crate) type Why = (&'static str, String);

/// Letters or jobs that a command did not change, and why.
#[derive(Debug, Default)]
pub(crate) struct NotDone(pub(crate) Vec<(JobId, Why)>);

impl NotDone {
    /// Finds out why a command that takes letters in these states left these unchanged. `other` tells it of a letter
    /// that has such a state.
    pub(crate) fn letters(
        ids: &[JobId],
        takes: &[LetterState],
        other: impl Fn(&Letter) -> Why,
        db: &Database,
    ) -> NotDone {
        let mut whys: BTreeMap<JobId, Why> = BTreeMap::new();
        let mut unread = ("gone", "it does not exist".to_owned());
        for some in ids.chunks(READ) {
            let these = LetterFilter::new().ids(some.iter().copied());
            let these = these.limit(some.len() as u64);
            let read = db.dlq().for_each(&these, |letter| -> Result<()> {
                let state = letter.state;
                let why = match takes.contains(&state) {
                    true => other(letter),
                    false => (state.as_str(), format!("it is {state}")),
                };
                whys.insert(letter.id, why);
                Ok(())
            });
            if let Err(error) = read {
                unread = unknown(error);
                break;
            }
        }
        let why = |id: &JobId| whys.get(id).unwrap_or(&unread).clone();
        NotDone(ids.iter().map(|id| (*id, why(id))).collect())
    }

    pub(crate) fn json(&self, names: &str) -> Vec<Value> {
        let json = |(reason, ids): (&str, Vec<JobId>)| {
            let ids: Vec<i64> = ids.into_iter().map(JobId::get).collect();
            json!({ "reason": reason, names: ids.len(), "ids": ids })
        };
        let reasons = self.0.iter().map(|(id, (reason, _))| (*id, *reason));
        grouped_by(reasons).into_iter().map(json).collect()
    }

    /// Says which were not changed, and why.
    pub(crate) fn say(&self, noun: &str, participle: &str, cx: &mut Context<'_>) {
        for line in self.lines(noun, participle) {
            cx.say(line);
        }
    }

    fn lines(&self, noun: &str, participle: &str) -> Vec<String> {
        if self.0.len() <= NAMED {
            let line = |(id, (_, cause)): &(JobId, Why)| {
                let cause = cause.replace(ID, &id.to_string());
                format!("{noun} {id} was not {participle}: {cause}")
            };
            return self.0.iter().map(line).collect();
        }
        let mut causes = grouped_by(self.0.iter().map(|(id, (_, cause))| (*id, &**cause)));
        causes.sort_by_key(|(_, ids)| std::cmp::Reverse(ids.len()));
        let were_not = |letters: usize, noun: &str| {
            let verb = if letters == 1 { "was" } else { "were" };
            format!("{} {verb} not {participle}", counted(letters as u64, noun))
        };
        let line = |(cause, ids): &(&str, Vec<JobId>)| {
            let named: Vec<String> = ids.iter().take(NAMED).map(ToString::to_string).collect();
            let more = if ids.len() > NAMED { " ..." } else { "" };
            let (named, cause) = (named.join(" "), cause.replace(ID, "ID"));
            format!("{}: {cause} ({named}{more})", were_not(ids.len(), noun))
        };
        let mut lines: Vec<String> = causes.iter().take(CAUSES).map(line).collect();
        let more: usize = causes.iter().skip(CAUSES).map(|(_, ids)| ids.len()).sum();
        if more > 0 {
            lines.push(were_not(more, &format!("more {noun}")));
        }
        lines
    }
}

/// Why a letter or job did not change that has the right state.
pub(crate) fn locked() -> Why {
    (
        "locked",
        "another operation or a consumer holds or changed it".to_owned(),
    )
}

/// Why a letter or job did not change, if that cannot be found out. What did change is reported all the same.
pub(crate) fn unknown(error: impl Into<Error>) -> Why {
    let cause = format!("why is not known: {}", error.into().one_line());
    ("unknown", cause)
}

/// The letters or jobs with each reason or cause, in the order of the first of each.
fn grouped_by<'a>(all: impl Iterator<Item = (JobId, &'a str)>) -> Vec<(&'a str, Vec<JobId>)> {
    let mut groups: Vec<(&str, Vec<JobId>)> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for (id, of) in all {
        let place = *places.entry(of).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, ids)) => ids.push(id),
            None => groups.push((of, vec![id])),
        }
    }
    groups
}

/// The place of the letter's id in a cause that suggests a command.
pub(crate) const ID: &str = "{id}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_letters_are_counted_by_their_most_frequent_causes() {
        let forced = format!("quarantined: redrive dlq redrive {ID} --force");
        let letter = |id, cause: &str| (JobId::new(id), ("why", cause.to_owned()));
        let few = [letter(7, &forced), letter(9, "it is recovered")];
        assert_eq!(
            NotDone(few.into()).lines("letter", "redriven"),
            [
                "letter 7 was not redriven: quarantined: redrive dlq redrive 7 --force",
                "letter 9 was not redriven: it is recovered",
            ]
        );
        let mut many: Vec<(JobId, Why)> = (1..=7).map(|id| letter(id, &forced)).collect();
        many.insert(3, letter(100, "it is recovered"));
        assert_eq!(
            NotDone(many).lines("letter", "redriven"),
            [
                "7 letters were not redriven: quarantined: redrive dlq redrive ID --force (1 2 3 4 5 ...)",
                "1 letter was not redriven: it is recovered (100)",
            ]
        );
        // Each has its own cause but the last two, which share one.
        let endless = (1..=31_i64).map(|id| letter(id, &format!("order {}", id.min(30))));
        let lines = NotDone(endless.collect()).lines("letter", "delivered");
        assert_eq!(lines.len(), CAUSES + 1);
        assert_eq!(lines[0], "2 letters were not delivered: order 30 (30 31)");
        assert_eq!(lines[1], "1 letter was not delivered: order 1 (1)");
        assert_eq!(lines[CAUSES], "10 more letters were not delivered");
    }
}
