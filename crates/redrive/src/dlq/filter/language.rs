//! The filter language: conditions separated by blanks.
//!
//! Filter text never becomes SQL: it fills the fields of a filter, which are statement
//! parameters.

use std::str::FromStr;

use crate::dlq::filter::moment::moment;
use crate::dlq::filter::payload::{Comparison, PayloadCondition, Scalar, end_of_quotes};
use crate::dlq::filter::value::{Text, Trouble, number, once, range};
use crate::dlq::filter::{Filter, LetterFilter};
use crate::dlq::state::LetterState;
use crate::error::{Error, Result};
use crate::job::death_cause::DeathCause;
use crate::job::duration::parse_duration;
use crate::job::job::milliseconds;

/// The longest filter text, in bytes.
const MAX_BYTES: usize = 64 * 1024;

/// The conditions, for error messages.
const CONDITIONS: &str = "queue=, kind=, class=, group=, cause=, state=, id=, generation=, died>, died<, \
     message~, version=, host=, source=, run=, audit=, \
     payload.PATH=";

/// Parses a filter: conditions separated by blanks, which must all hold.
///
/// | condition | letters |
/// |---|---|
/// | `queue=orders` `kind=order.placed` | of a queue, of a kind |
/// | `class=Timeout,Refused` | whose last error has one of these classes |
/// | `group=12` | in one of these failure groups |
/// | `cause=exhausted` `state=open` | with a cause of death, in a state; `state=any` |
/// | `id=5` `id=5..10` `id>=5` | by id |
/// | `died>2h` `died<1d` | that died longer ago than two hours, less than a day ago |
/// | `died>=2026-11-20T10:00Z` `died<2026-11-21` | that died at or after a time, before a time |
/// | `generation>=2` | that had been redriven twice or more |
/// | `payload.customer.id=42` `payload.tags[0]="x y"` | by a value of the payload: `=` `!=` `<` `<=` `>` `>=`, and `~` for text that contains a text |
/// | `message~"card declined"` | whose message contains this text, ignoring case |
/// | `version=1.4` `host=web-1` `source=kafka:orders` `run=7` | by program version, host, capture source, redrive run |
/// | `audit=412` | that an operation was the last to discard, reopen, restore or edit, by its audit record |
///
/// An age is a duration such as `90s`, `1h30m`, `1.5h` or `7d`; months and years are not accepted.
/// A time without `Z` or an offset is UTC.
///
/// Commas separate several values. A value with blanks or punctuation is quoted as in JSON. A
/// bare payload value that looks like a number, `true`, `false` or `null` has that type;
/// quoted, it is text.
///
/// ```
/// use redrive::dlq::LetterFilter;
///
/// let filter: LetterFilter = "queue=orders class=Timeout died>2h payload.amount>100".parse()?;
/// assert_eq!(filter.to_string(), "queue=orders class=Timeout died>2h payload.amount>100");
/// # Ok::<(), redrive::Error>(())
/// ```
impl FromStr for LetterFilter {
    type Err = Error;

    fn from_str(text: &str) -> Result<LetterFilter> {
        check(text)?;
        let mut filter = LetterFilter::default();
        let mut rest = text.trim_start();
        while !rest.is_empty() {
            let (condition, after) = next_condition(rest);
            add(&mut filter.filter, condition)?;
            rest = after.trim_start();
        }
        Ok(filter)
    }
}

impl LetterFilter {
    /// Parses a text as exactly one condition, such as one argument of a shell.
    ///
    /// A value may contain spaces without quotes.
    ///
    /// ```
    /// use redrive::dlq::LetterFilter;
    ///
    /// let failed = LetterFilter::parse_condition("class=exit 1")?;
    /// assert_eq!(failed, LetterFilter::new().error_class("exit 1"));
    /// # Ok::<(), redrive::Error>(())
    /// ```
    ///
    /// # Errors
    /// *Invalid* if the text is not a condition; the message lists the conditions.
    pub fn parse_condition(text: &str) -> Result<LetterFilter> {
        check(text)?;
        let mut filter = LetterFilter::default();
        add(&mut filter.filter, text.trim())?;
        Ok(filter)
    }
}

/// Rejects text that is too long or that PostgreSQL cannot store.
fn check(text: &str) -> Result<()> {
    if text.len() > MAX_BYTES {
        return Err(Error::invalid(format!(
            "the filter is longer than {MAX_BYTES} bytes"
        )));
    }
    if text.contains('\0') {
        return Err(Error::invalid("the filter contains NUL"));
    }
    Ok(())
}

/// Adds one condition to the filter. The error names it.
fn add(filter: &mut Filter, condition: &str) -> Result<()> {
    read(filter, condition).map_err(|why| {
        Error::invalid(format!(
            "the condition `{}` of the filter {why}",
            condition.escape_debug()
        ))
    })
}

/// Splits off the first condition, up to a blank outside quotes.
fn next_condition(text: &str) -> (&str, &str) {
    let mut from = 0;
    while let Some(at) = text[from..].find(|c: char| c == '"' || c.is_whitespace()) {
        let at = from + at;
        match end_of_quotes(&text[at..]) {
            Some(end) if text[at..].starts_with('"') => from = at + end,
            // An unclosed quote extends to the end; parsing the condition reports
            // it.
            None if text[at..].starts_with('"') => break,
            Some(_) | None => return text.split_at(at),
        }
    }
    (text, "")
}

/// Parses one condition into the filter.
#[expect(clippy::too_many_lines, reason = "one arm per field of the language")]
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
            "does not support `{}`; write `{key}=`",
            comparison.as_str()
        )),
    };
    match key {
        "queue" => once(&mut filter.queue, equal().and_then(|()| value.one())?, key),
        "kind" => once(&mut filter.kind, equal().and_then(|()| value.one())?, key),
        "version" => once(
            &mut filter.version,
            equal().and_then(|()| value.one())?,
            key,
        ),
        "host" => once(&mut filter.host, equal().and_then(|()| value.one())?, key),
        "source" => once(&mut filter.source, equal().and_then(|()| value.one())?, key),
        "class" => once(
            &mut filter.class,
            equal().and_then(|()| value.several())?,
            key,
        ),
        "run" => once(
            &mut filter.run,
            equal().and_then(|()| number(&value.one()?))?,
            key,
        ),
        "audit" => once(
            &mut filter.audit,
            equal().and_then(|()| number(&value.one()?))?,
            key,
        ),
        "group" => {
            equal()?;
            let groups: std::result::Result<_, Trouble> =
                value.several()?.iter().map(|id| number(id)).collect();
            once(&mut filter.group, groups?, key)
        }
        "cause" => {
            equal()?;
            let causes = value
                .several()?
                .iter()
                .map(|word| word.parse().map(DeathCause::as_str))
                .collect::<Result<_>>();
            once(
                &mut filter.cause,
                causes.map_err(|error| format!("has an invalid value: {error}"))?,
                key,
            )
        }
        "state" => {
            equal()?;
            let states = match &*value.several()? {
                [any] if any == "any" => LetterState::ALL.map(LetterState::as_str).to_vec(),
                words => words
                    .iter()
                    .map(|word| word.parse().map(LetterState::as_str))
                    .collect::<Result<_>>()
                    .map_err(|error| format!("has an invalid value: {error}, or any"))?,
            };
            once(&mut filter.state, states, key)
        }
        "message" => match comparison {
            Comparison::Contains => once(&mut filter.message, value.one()?, key),
            Comparison::Equal
            | Comparison::NotEqual
            | Comparison::Less
            | Comparison::AtMost
            | Comparison::Greater
            | Comparison::AtLeast => {
                Err("only supports `message~`, which searches the message".to_owned())
            }
        },
        "id" => match (comparison, value.text.contains("..")) {
            (Comparison::Equal, false) => {
                let ids: std::result::Result<_, Trouble> =
                    value.several()?.iter().map(|id| number(id)).collect();
                once(&mut filter.ids, ids?, key)
            }
            (
                Comparison::Equal
                | Comparison::NotEqual
                | Comparison::Less
                | Comparison::AtMost
                | Comparison::Greater
                | Comparison::AtLeast
                | Comparison::Contains,
                _,
            ) => {
                let (from, to) = range(comparison, value.text, i64::MIN, i64::MAX)?;
                bounds(&mut filter.id_from, &mut filter.id_to, from, to, key)
            }
        },
        "generation" => {
            let narrow = |n: Option<i64>| {
                n.map(|n| u32::try_from(n).map_err(|_| "has a negative generation".to_owned()))
                    .transpose()
            };
            let (from, to) = range(
                comparison,
                value.text,
                i64::from(i32::MIN),
                i64::from(i32::MAX),
            )?;
            bounds(
                &mut filter.generation_from,
                &mut filter.generation_to,
                narrow(from)?,
                narrow(to)?,
                key,
            )
        }
        "died" => died(filter, comparison, &value.one()?),
        _ if key.starts_with("payload.") || key.starts_with("payload[") => {
            let path = &key["payload".len()..];
            let scalar = match value.text.starts_with('"') {
                true => Scalar::Text(value.one()?),
                false => Scalar::bare(&value.one()?),
            };
            let path = path.strip_prefix('.').unwrap_or(path);
            let condition = PayloadCondition::new(path, comparison, scalar)
                .map_err(|error| format!("has an invalid value: {error}"))?;
            filter.payload.push(condition);
            Ok(())
        }
        "payload" => Err(
            "names no payload path; write payload.PATH, such as payload.customer.id=42".to_owned(),
        ),
        "" => Err(format!("names no field; expected one of {CONDITIONS}")),
        _ => Err(format!(
            "has an unknown field; expected one of {CONDITIONS}"
        )),
    }
}

/// Splits a condition at its first operator outside quotes.
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
            let end = end_of_quotes(rest).ok_or("has an unclosed quotation mark")?;
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
        "has no operator such as `=`; quote values with blanks; expected one of {CONDITIONS}"
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

/// Parses the time of death: an age, which is relative, or a moment.
fn died(
    filter: &mut Filter,
    comparison: Comparison,
    text: &str,
) -> std::result::Result<(), Trouble> {
    let is_after = match comparison {
        Comparison::Greater | Comparison::AtLeast => true,
        Comparison::Less | Comparison::AtMost => false,
        Comparison::Equal | Comparison::NotEqual | Comparison::Contains => {
            return Err("only supports died> and died<, with an age or a time".to_owned());
        }
    };
    if let Ok(age) = parse_duration(text) {
        let bound = match is_after {
            true => &mut filter.older_than_ms,
            false => &mut filter.newer_than_ms,
        };
        return once(bound, milliseconds(age), "died");
    }
    let moment = moment(text).ok_or_else(|| {
        format!(
            "compares with `{}`, which is neither an age such as 2h or 1d12h nor a time such as 2026-11-20 or 2026-11-20T10:00Z",
            text.escape_debug()
        )
    })?;
    let bound = match is_after {
        true => &mut filter.died_from,
        false => &mut filter.died_to,
    };
    once(bound, moment, "died")
}

#[cfg(test)]
mod tests;
