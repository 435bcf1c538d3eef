//! The filter language: conditions separated by blanks.
//!
//! Filter text never becomes SQL: it fills the fields of a filter, which are statement
//! parameters.

use std::str::FromStr;

use crate::dlq::filter::moment::moment;
use crate::dlq::filter::payload::Comparison;
use crate::dlq::filter::syntax::{
    Ids, age, bounds, count_range, each_condition, ids, is_payload, one_condition, only_equal,
    parts, payload, unknown_field,
};
use crate::dlq::filter::value::{Text, Trouble, number, once};
use crate::dlq::filter::{Filter, LetterFilter};
use crate::dlq::state::LetterState;
use crate::error::{Error, Result};
use crate::job::death_cause::DeathCause;
use crate::job::duration::parse_duration;

/// The conditions, for error messages.
const CONDITIONS: &str = "queue=, kind=, class=, group=, cause=, state=, id=, generation=, age>, age<, died>, died<, \
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
/// | `age>2h` `age<1d` | that died longer ago than two hours, less than a day ago |
/// | `died>=2026-11-20T10:00Z` `died<2026-11-21` | that died at or after a time, before a time |
/// | `generation>=2` | that had been redriven twice or more |
/// | `payload.customer.id=42` `payload.tags[0]="x y"` | by a value of the payload: `=` `!=` `<` `<=` `>` `>=`, and `~` for text that contains a text |
/// | `message~"card declined"` | whose message contains this text, ignoring case |
/// | `version=1.4` `host=web-1` `source=kafka:orders` `run=7` | by program version, host, capture source, redrive run |
/// | `audit=412` | that an operation was the last to discard, reopen, restore or edit, by its audit record |
///
/// An age is a duration, such as `90s`, `1h30m`, `1.5h` or `7d`; months and years are not accepted.
/// A time without `Z` or an offset is UTC.
///
/// Commas separate several values. A value with blanks or punctuation is quoted as in JSON. A
/// bare payload value that looks like a number, `true`, `false` or `null` has that type;
/// quoted, it is text.
///
/// ```
/// use redrive::dlq::LetterFilter;
///
/// let filter: LetterFilter = "queue=orders class=Timeout age>2h payload.amount>100".parse()?;
/// assert_eq!(filter.to_string(), "queue=orders class=Timeout age>2h payload.amount>100");
/// # Ok::<(), redrive::Error>(())
/// ```
impl FromStr for LetterFilter {
    type Err = Error;

    fn from_str(text: &str) -> Result<LetterFilter> {
        let mut filter = LetterFilter::default();
        each_condition(text, |condition| read(&mut filter.filter, condition))?;
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
        let mut filter = LetterFilter::default();
        one_condition(text, |condition| read(&mut filter.filter, condition))?;
        Ok(filter)
    }
}

/// Parses one condition into the filter.
fn read(filter: &mut Filter, condition: &str) -> std::result::Result<(), Trouble> {
    let (key, comparison, value) = parts(condition, CONDITIONS)?;
    let value = Text { text: value };
    let equal = || only_equal(key, comparison);
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
            Comparison::Contains => match value.one()? {
                part if part.is_empty() => Err("is empty, which every message contains".to_owned()),
                part => once(&mut filter.message, part, key),
            },
            Comparison::Equal
            | Comparison::NotEqual
            | Comparison::Less
            | Comparison::AtMost
            | Comparison::Greater
            | Comparison::AtLeast => {
                Err("only supports `message~`, which searches the message".to_owned())
            }
        },
        "id" => match ids(comparison, &value)? {
            Ids::These(ids) => once(&mut filter.ids, ids, key),
            Ids::Range(from, to) => bounds(&mut filter.id_from, &mut filter.id_to, from, to, key),
        },
        "generation" => {
            let (from, to) = count_range(comparison, &value, key)?;
            bounds(
                &mut filter.generation_from,
                &mut filter.generation_to,
                from,
                to,
                key,
            )
        }
        "age" => age(
            &mut filter.older_than_ms,
            &mut filter.newer_than_ms,
            comparison,
            &value.one()?,
        ),
        "died" => died(filter, comparison, &value.one()?),
        _ if is_payload(key) => {
            filter.payload.push(payload(key, comparison, &value)?);
            Ok(())
        }
        _ => Err(unknown_field(key, CONDITIONS)),
    }
}

/// Parses the time of death. An age is refused: `died>2h` could mean more than two hours ago or later than
/// two hours ago.
fn died(
    filter: &mut Filter,
    comparison: Comparison,
    text: &str,
) -> std::result::Result<(), Trouble> {
    let bound = match comparison {
        Comparison::Greater | Comparison::AtLeast => &mut filter.died_from,
        Comparison::Less | Comparison::AtMost => &mut filter.died_to,
        Comparison::Equal | Comparison::NotEqual | Comparison::Contains => {
            return Err("only supports died> and died<, with a time".to_owned());
        }
    };
    let shown = text.escape_debug();
    if parse_duration(text).is_ok() {
        return Err(format!(
            "compares a time with an age; write age>{shown} for letters that died longer ago, age<{shown} for later ones"
        ));
    }
    let moment = moment(text).ok_or_else(|| {
        format!(
            "compares with `{shown}`, which is not a time such as 2026-11-20 or 2026-11-20T10:00Z"
        )
    })?;
    once(bound, moment, "died")
}

#[cfg(test)]
mod tests;
