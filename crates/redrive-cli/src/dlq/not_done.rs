//! Letters given by id that a command did not change: a line per letter, or per cause if there are
//! many.

use redrive::JobId;
use serde_json::{Value, json};

use crate::context::Context;
use crate::terminal::counted;

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

/// The letters that were not changed as JSON, by reason.
pub(super) fn skipped_json<'a>(letters: impl Iterator<Item = (JobId, &'a str)>) -> Vec<Value> {
    let mut reasons: Vec<(&str, Vec<i64>)> = Vec::new();
    for (id, reason) in letters {
        match reasons.iter_mut().find(|(known, _)| *known == reason) {
            Some((_, ids)) => ids.push(id.get()),
            None => reasons.push((reason, vec![id.get()])),
        }
    }
    let reasons = reasons.iter();
    reasons
        .map(|(reason, ids)| json!({ "reason": reason, "letters": ids.len(), "ids": ids }))
        .collect()
}

fn lines(noun: &str, letters: &[(JobId, String)], participle: &str) -> Vec<String> {
    if letters.len() <= NAMED {
        let line = |(id, cause): &(JobId, String)| {
            format!("{noun} {id} was not {participle}: {}", naming(cause, *id))
        };
        return letters.iter().map(line).collect();
    }
    let mut causes: Vec<(&str, Vec<JobId>)> = Vec::new();
    for (id, cause) in letters {
        match causes.iter_mut().find(|(known, _)| known == cause) {
            Some((_, ids)) => ids.push(*id),
            None => causes.push((cause, vec![*id])),
        }
    }
    causes.sort_by_key(|(_, ids)| std::cmp::Reverse(ids.len()));
    let line = |(cause, ids): &(&str, Vec<JobId>)| {
        let named: Vec<String> = ids.iter().take(NAMED).map(ToString::to_string).collect();
        let more = if ids.len() > NAMED { " ..." } else { "" };
        let verb = if ids.len() == 1 { "was" } else { "were" };
        let letters = counted(ids.len() as u64, noun);
        let named = named.join(" ");
        let cause = cause.replace(ID, "ID");
        format!("{letters} {verb} not {participle}: {cause} ({named}{more})")
    };
    causes.iter().map(line).collect()
}

/// The place of the letter's id in a cause that suggests a command.
pub(super) const ID: &str = "{id}";

fn naming(cause: &str, id: JobId) -> String {
    cause.replace(ID, &id.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reasons_are_counted_as_json() {
        let letters = [(7, "not_open"), (8, "missing"), (9, "not_open")];
        let letters = letters.map(|(id, reason)| (JobId::new(id), reason));
        assert_eq!(
            skipped_json(letters.into_iter()),
            [
                json!({"reason": "not_open", "letters": 2, "ids": [7, 9]}),
                json!({"reason": "missing", "letters": 1, "ids": [8]}),
            ]
        );
    }

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
