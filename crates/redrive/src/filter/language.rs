//! The little language of filters: conditions joined by blanks, read and written.
//!
//! What is read never becomes SQL: it fills the fields of a filter, and those are parameters.

use std::str::FromStr;

use crate::error::{Error, Result};
use crate::filter::moment::{age, moment};
use crate::filter::payload::{Comparison, PayloadCondition, Scalar, end_of_quotes};
use crate::filter::value::{Text, Trouble, number, range};
use crate::filter::{Filter, Letters};
use crate::job::milliseconds;
use crate::letter::LetterState;
use crate::reason::Reason;

/// The longest filter, in bytes.
const LONGEST: usize = 64 * 1024;

/// What there is to write in a condition, for those who wrote anything else.
const CONDITIONS: &str = "queue=, kind=, class=, group=, reason=, state=, id=, generation=, died>, died<, \
     message~, version=, host=, source=, run=, payload.PATH=";

/// Reads a filter: conditions joined by blanks, all of which hold.
///
/// | condition | letters |
/// |---|---|
/// | `queue=orders` `kind=order.placed` | of a queue, of a kind |
/// | `class=Timeout,Refused` | whose last error has one of these classes |
/// | `group=12` | of failure groups |
/// | `reason=exhausted` `state=open` | that died for a reason, that are in a state; `state=any` |
/// | `id=5` `id=5..10` `id>=5` | by id |
/// | `died>2h` `died<1d` | that died longer ago than two hours, less than a day ago |
/// | `died>=2026-11-20T10:00Z` `died<2026-11-21` | that died from a moment on, before one |
/// | `generation>=2` | that had been redriven twice or more |
/// | `payload.customer.id=42` `payload.tags[0]="x y"` | by a value of the payload: `=` `!=` `<` `<=` `>` `>=`, and `~` for text that has another in it |
/// | `message~"card declined"` | whose message has this in it, in upper or lower case |
/// | `version=1.4` `host=web-1` `source=kafka:orders` `run=7` | by what saw them die, came from, sent them back |
///
/// Several values are parted by commas. A value with blanks or marks goes in double quotes, as in
/// JSON. A bare value of the payload that looks like a number, `true`, `false` or `null` is that,
/// and in quotes it is text.
///
/// ```
/// use redrive::Letters;
///
/// let which: Letters = "queue=orders class=Timeout died>2h payload.amount>100".parse()?;
/// assert_eq!(which.to_string(), "queue=orders class=Timeout died>2h payload.amount>100");
/// # Ok::<(), redrive::Error>(())
/// ```
impl FromStr for Letters {
    type Err = Error;

    fn from_str(text: &str) -> Result<Letters> {
        if text.len() > LONGEST {
            return Err(Error::invalid(format!(
                "a filter has {LONGEST} bytes at most"
            )));
        }
        if text.contains('\0') {
            return Err(Error::invalid("a filter cannot have a NUL character in it"));
        }
        let mut which = Letters::default();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let (condition, after) = next_condition(rest);
            read(&mut which.filter, condition).map_err(|why| {
                Error::invalid(format!(
                    "the condition `{}` of the filter {why}",
                    condition.escape_debug()
                ))
            })?;
            rest = after.trim_start();
        }
        Ok(which)
    }
}

/// The first condition of a text, up to a blank that is not in quotes, and the rest.
fn next_condition(text: &str) -> (&str, &str) {
    let mut from = 0;
    while let Some(at) = text[from..].find(|c: char| c == '"' || c.is_whitespace()) {
        let at = from + at;
        match end_of_quotes(&text[at..]) {
            Some(end) if text[at..].starts_with('"') => from = at + end,
            // A mark without another goes to the end: the condition says so.
            None if text[at..].starts_with('"') => break,
            Some(_) | None => return text.split_at(at),
        }
    }
    (text, "")
}

/// Reads one condition into the filter.
fn read(filter: &mut Filter, condition: &str) -> std::result::Result<(), Trouble> {
    let (key, comparison, value) = parts(condition)?;
    let value = Text { text: value };
    let equal = || match comparison {
        Comparison::Equal => Ok(()),
        Comparison::NotEqual
        | Comparison::Less
        | Comparison::AtMost
        | Comparison::Greater
        | Comparison::AtLeast
        | Comparison::Contains => Err(format!(
            "cannot compare with `{}`: `{key}=` is possible",
            comparison.as_str()
        )),
    };
    match key {
        "queue" => once(&mut filter.queue, equal().and_then(|()| value.one())?, key),
        "kind" => once(&mut filter.kind, equal().and_then(|()| value.one())?, key),
        "version" => once(&mut filter.version, equal().and_then(|()| value.one())?, key),
        "host" => once(&mut filter.host, equal().and_then(|()| value.one())?, key),
        "source" => once(&mut filter.source, equal().and_then(|()| value.one())?, key),
        "class" => once(&mut filter.class, equal().and_then(|()| value.several())?, key),
        "run" => once(&mut filter.run, equal().and_then(|()| number(&value.one()?))?, key),
        "group" => {
            equal()?;
            let groups: std::result::Result<_, Trouble> = value.several()?.iter().map(|id| number(id)).collect();
            once(&mut filter.group, groups?, key)
        }
        "reason" => {
            equal()?;
            let reasons = value.several()?.iter().map(|word| word.parse().map(Reason::as_str)).collect::<Result<_>>();
            once(&mut filter.reason, reasons.map_err(|error| format!("is not possible: {error}"))?, key)
        }
        "state" => {
            equal()?;
            let states = match &*value.several()? {
                [any] if any == "any" => LetterState::ALL.map(LetterState::as_str).to_vec(),
                words => words
                    .iter()
                    .map(|word| word.parse().map(LetterState::as_str))
                    .collect::<Result<_>>()
                    .map_err(|error| format!("is not possible: {error}, and any"))?,
            };
            once(&mut filter.state, states, key)
        }
        "message" => match comparison {
            Comparison::Contains => once(&mut filter.message, value.one()?, key),
            Comparison::Equal | Comparison::NotEqual | Comparison::Less | Comparison::AtMost | Comparison::Greater | Comparison::AtLeast => {
                Err("is not possible: `message~` looks for a part of the message".to_owned())
            }
        },
        "id" => match (comparison, value.text.contains("..")) {
            (Comparison::Equal, false) => {
                let ids: std::result::Result<_, Trouble> = value.several()?.iter().map(|id| number(id)).collect();
                once(&mut filter.ids, ids?, key)
            }
            (Comparison::Equal | Comparison::NotEqual | Comparison::Less | Comparison::AtMost | Comparison::Greater | Comparison::AtLeast | Comparison::Contains, _) => {
                let (from, to) = range(comparison, value.text, i64::MIN, i64::MAX)?;
                bounds(&mut filter.id_from, &mut filter.id_to, from, to, key)
            }
        },
        "generation" => {
            let narrow = |n: Option<i64>| n.map(|n| u32::try_from(n).map_err(|_| "is not possible: a generation is not negative".to_owned())).transpose();
            let (from, to) = range(comparison, value.text, i64::from(i32::MIN), i64::from(i32::MAX))?;
            bounds(&mut filter.generation_from, &mut filter.generation_to, narrow(from)?, narrow(to)?, key)
        }
        "died" => died(filter, comparison, &value.one()?),
        _ if key.starts_with("payload.") || key.starts_with("payload[") => {
            let path = &key["payload".len()..];
            let scalar = match value.text.starts_with('"') {
                true => Scalar::Text(value.one()?),
                false => Scalar::bare(&value.one()?),
            };
            let path = path.strip_prefix('.').unwrap_or(path);
            let condition = PayloadCondition::new(path, comparison, scalar).map_err(|error| format!("is not possible: {error}"))?;
            filter.payload.push(condition);
            Ok(())
        }
        "payload" => Err("says nothing of where in the payload: payload.PATH is possible, such as payload.customer.id=42".to_owned()),
        "" => Err(format!("says nothing of what to compare; there are {CONDITIONS}")),
        _ => Err(format!("is of nothing that letters have; there are {CONDITIONS}")),
    }
}

/// What a condition compares, how, and with what: its first operator outside of quotes parts it.
fn parts(condition: &str) -> std::result::Result<(&str, Comparison, &str), Trouble> {
    const OPERATORS: [(&str, Comparison); 7] = [
        ("!=", Comparison::NotEqual),
        ("<=", Comparison::AtMost),
        (">=", Comparison::AtLeast),
        ("=", Comparison::Equal),
        ("<", Comparison::Less),
        (">", Comparison::Greater),
        ("~", Comparison::Contains),
    ];
    let mut from = 0;
    while let Some(at) = condition[from..].find(['"', '!', '=', '<', '>', '~']) {
        let (key, rest) = condition.split_at(from + at);
        if rest.starts_with('"') {
            let end = end_of_quotes(rest).ok_or("has a quotation mark without another")?;
            from += at + end;
            continue;
        }
        let found = OPERATORS
            .iter()
            .find(|(operator, _)| rest.starts_with(operator));
        let (operator, comparison) = found.ok_or("has a `!` that is not followed by `=`")?;
        return Ok((key, *comparison, &rest[operator.len()..]));
    }
    Err(format!(
        "has no operator, such as `=`; a value with blanks goes in double quotes, and there are {CONDITIONS}"
    ))
}

fn bounds<T>(
    from: &mut Option<T>,
    to: &mut Option<T>,
    new_from: Option<T>,
    new_to: Option<T>,
    key: &str,
) -> std::result::Result<(), Trouble> {
    if let Some(bound) = new_from {
        once(from, bound, key)?;
    }
    match new_to {
        Some(bound) => once(to, bound, key),
        None => Ok(()),
    }
}

/// When letters died: an age, which grows, or a moment.
fn died(
    filter: &mut Filter,
    comparison: Comparison,
    text: &str,
) -> std::result::Result<(), Trouble> {
    let is_after = match comparison {
        Comparison::Greater | Comparison::AtLeast => true,
        Comparison::Less | Comparison::AtMost => false,
        Comparison::Equal | Comparison::NotEqual | Comparison::Contains => {
            return Err("is not possible: died> and died< are, with an age or a moment".to_owned());
        }
    };
    if let Some(age) = age(text) {
        let bound = match is_after {
            true => &mut filter.older_than_ms,
            false => &mut filter.newer_than_ms,
        };
        return once(bound, milliseconds(age), "died");
    }
    let moment = moment(text).ok_or_else(|| {
        format!(
            "compares with `{}`, which is neither an age such as 2h or 1d12h nor a moment such as 2026-11-20 or 2026-11-20T10:00Z",
            text.escape_debug()
        )
    })?;
    let bound = match is_after {
        true => &mut filter.died_from,
        false => &mut filter.died_to,
    };
    once(bound, moment, "died")
}

/// Each thing is said once: of two, one would be forgotten.
fn once<T>(field: &mut Option<T>, value: T, key: &str) -> std::result::Result<(), Trouble> {
    match field.replace(value) {
        None => Ok(()),
        Some(_) => Err(format!(
            "says `{key}` a second time; several values are parted by commas"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        for text in [
            "",
            "queue=orders",
            "queue=\"my orders\" kind=order.placed class=Timeout,\"a, b\",\"\\\"\" group=12,13",
            "reason=exhausted,worker_lost state=open,quarantined id=5,7",
            "state=any id>=5 id<=10 generation>=2 generation<=3",
            "died>2h died<1d12h died>=2026-11-20T10:00:00Z died<2026-11-21T00:00:00Z",
            "message~card version=1.4 host=web-1 source=kafka:orders run=7",
            "payload.customer.id=42 payload.amount>100 payload.tags[0]=\"x y\" payload.a.\"b c\"!=\"42\" payload[0]~x",
            "payload.a=null payload.b=\"null\" payload.c<=-1.5 payload.d=123456789012345678901234567890",
        ] {
            let which: Letters = text.parse().expect(text);
            assert_eq!(which.to_string(), text);
            assert_eq!(which.to_string().parse::<Letters>().expect(text), which);
        }
    }

    #[test]
    fn conditions_have_several_ways_to_be_said() {
        for (said, written) in [
            ("  queue=a\n kind=b ", "queue=a kind=b"),
            ("id=5..10", "id>=5 id<=10"),
            ("id>5 id<10", "id>=6 id<=9"),
            ("generation=2", "generation>=2 generation<=2"),
            ("died>90m", "died>1h30m"),
            ("died<2026-11-20", "died<2026-11-20T00:00:00Z"),
            ("class=\"Timeout\"", "class=Timeout"),
            ("queue=a=b", "queue=\"a=b\""),
            ("payload.\"a\".b=x,y", "payload.a.b=\"x,y\""),
            ("message~\"card declined\"", "message~\"card declined\""),
        ] {
            assert_eq!(said.parse::<Letters>().expect(said).to_string(), written);
        }
    }

    #[test]
    fn what_cannot_be_read_says_where_and_what_is_possible() {
        for (text, why) in [
            ("orders", "has no operator"),
            ("colour=red", "there are queue="),
            ("=red", "nothing of what to compare"),
            ("queue>a", "`queue=` is possible"),
            ("queue=", "compares with nothing"),
            ("queue=a queue=b", "a second time"),
            ("queue=\"a", "quotation mark without another"),
            ("queue=\"a\"b", "behind its quotes"),
            ("queue=a\"b\"", "in the middle"),
            ("queue=\"\\x\"", "no JSON string"),
            ("queue=\"\\u0000\"", "NUL"),
            ("queue=a\0", "NUL"),
            ("class=a,", "compares with nothing"),
            ("reason=bored", "there are exhausted"),
            ("state=dead", "and any"),
            ("id=x", "whole number"),
            ("id=10..5", "before it begins"),
            ("id~5", "=FROM..TO"),
            ("generation=-1", "negative"),
            ("generation>2147483647", "nothing pass"),
            ("generation=99999999999", "too large"),
            ("died=2h", "died> and died<"),
            ("died>yesterday", "neither an age"),
            ("message=x", "message~"),
            ("payload=1", "payload.PATH"),
            ("payload.a!1", "not followed by"),
            ("payload.=1", "is empty"),
            ("payload.a[x]=1", "not a number"),
            ("payload.a~1", "compares with a text"),
            ("message~card declined", "`declined`"),
        ] {
            let error = text.parse::<Letters>().expect_err(text);
            assert!(
                error.is_invalid() && error.to_string().contains(why),
                "{text}: {error}"
            );
        }
        assert!("x".repeat(LONGEST + 1).parse::<Letters>().is_err());
    }

    #[test]
    fn no_text_makes_it_panic_and_what_it_takes_it_writes() {
        const PIECES: [&str; 40] = [
            "queue",
            "kind",
            "class",
            "group",
            "reason",
            "state",
            "id",
            "died",
            "generation",
            "payload",
            "message",
            "run",
            "=",
            "!=",
            "<",
            ">",
            ">=",
            "~",
            "!",
            "\"",
            "\\",
            "..",
            ".",
            "[",
            "]",
            "0",
            "42",
            "-1",
            "2h",
            "2026-11-20",
            "open",
            "any",
            "exhausted",
            "é",
            "\u{1F600}",
            " ",
            ",",
            "\n",
            "x y",
            "null",
        ];
        let random = fastrand::Rng::with_seed(7);
        let mut random = random;
        let mut taken = 0;
        for _ in 0..50_000 {
            let length = random.usize(0..12);
            let text: String = (0..length)
                .map(|_| PIECES[random.usize(0..PIECES.len())])
                .collect();
            if let Ok(which) = text.parse::<Letters>() {
                taken += 1;
                let written = which.to_string();
                let again: Letters = written
                    .parse()
                    .unwrap_or_else(|error| panic!("{text:?} {written:?}: {error}"));
                assert_eq!(again, which, "{text:?} {written:?}");
            }
        }
        assert!(taken > 500, "{taken}");
    }
}
