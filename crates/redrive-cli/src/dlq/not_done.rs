//! Letters given by id that a command did not change: a line per letter, or per cause if there are
//! many.

use redrive::JobId;
use serde_json::Value;

use crate::prelude::*;

/// How many letters have one line each, and how many are named in the line of a cause.
const NAMED: usize = 5;

/// Says which letters were not changed, and why.
pub(super) fn say_not_done(
    noun: &str,
    letters: &[(JobId, String)],
    participle: &str,
    cx: &mut Context<'_>,
) {
    for line in lines(noun, letters, participle) {
        cx.say(line);
    }
}

/// The letters or jobs that were not changed as JSON, by reason.
pub(crate) fn skipped_json<'a>(
    names: &str,
    letters: impl Iterator<Item = (JobId, &'a str)>,
) -> Vec<Value> {
    let json = |(reason, ids): (&str, Vec<JobId>)| {
        let ids: Vec<i64> = ids.into_iter().map(JobId::get).collect();
        json!({ "reason": reason, names: ids.len(), "ids": ids })
    };
    by_cause(letters).into_iter().map(json).collect()
}

/// The letters of each cause.
fn by_cause<'a>(letters: impl Iterator<Item = (JobId, &'a str)>) -> Vec<(&'a str, Vec<JobId>)> {
    let mut causes: Vec<(&str, Vec<JobId>)> = Vec::new();
    for (id, cause) in letters {
        match causes.iter_mut().find(|(known, _)| *known == cause) {
            Some((_, ids)) => ids.push(id),
            None => causes.push((cause, vec![id])),
        }
    }
    causes
}

fn lines(noun: &str, letters: &[(JobId, String)], participle: &str) -> Vec<String> {
    if letters.len() <= NAMED {
        let line = |(id, cause): &(JobId, String)| {
            let cause = cause.replace(ID, &id.to_string());
            format!("{noun} {id} was not {participle}: {cause}")
        };
        return letters.iter().map(line).collect();
    }
    let mut causes = by_cause(letters.iter().map(|(id, cause)| (*id, &**cause)));
    causes.sort_by_key(|(_, ids)| std::cmp::Reverse(ids.len()));
    let line = |(cause, ids): &(&str, Vec<JobId>)| {
        let named: Vec<String> = ids.iter().take(NAMED).map(ToString::to_string).collect();
        let more = if ids.len() > NAMED { " ..." } else { "" };
        let verb = if ids.len() == 1 { "was" } else { "were" };
        let letters = counted(ids.len() as u64, noun);
        let (named, cause) = (named.join(" "), cause.replace(ID, "ID"));
        format!("{letters} {verb} not {participle}: {cause} ({named}{more})")
    };
    causes.iter().map(line).collect()
}

/// The place of the letter's id in a cause that suggests a command.
pub(super) const ID: &str = "{id}";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_letters_are_counted_by_cause() {
        let forced = format!("quarantined: redrive dlq redrive {ID} --force");
        let letter = |id, cause: &str| (JobId::new(id), cause.to_owned());
        let few = [letter(7, &forced), letter(9, "it is recovered")];
        assert_eq!(
            lines("letter", &few, "redriven"),
            [
                "letter 7 was not redriven: quarantined: redrive dlq redrive 7 --force",
                "letter 9 was not redriven: it is recovered",
            ]
        );
        let mut many: Vec<(JobId, String)> = (1..=7).map(|id| letter(id, &forced)).collect();
        many.insert(3, letter(100, "it is recovered"));
        assert_eq!(
            lines("letter", &many, "redriven"),
            [
                "7 letters were not redriven: quarantined: redrive dlq redrive ID --force (1 2 3 4 5 ...)",
                "1 letter was not redriven: it is recovered (100)",
            ]
        );
        assert!(lines("letter", &[], "redriven").is_empty());
    }
}
