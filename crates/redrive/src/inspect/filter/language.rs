//! Filters of jobs as text, in the language of the filters of letters.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use crate::dlq::filter::syntax::{
    Ids, age, bounds, count_range, each_condition, ids, is_payload, one_condition, only_equal,
    parts, payload, unknown_field, value as written,
};
use crate::dlq::filter::value::{Text, Trouble, once, range};
use crate::error::{Error, Result};
use crate::inspect::filter::{JobConditions, JobFilter};
use crate::inspect::state::JobState;
use crate::job::duration::format_duration;

/// The conditions, for error messages.
const CONDITIONS: &str = "queue=, kind=, state=, id=, priority=, attempts=, generation=, age>, age<, \
     unique=, payload.PATH=";

/// Parses a filter: conditions separated by blanks, which must all hold.
///
/// | condition | jobs |
/// |---|---|
/// | `queue=orders` `kind=order.placed` | of a queue, of a kind |
/// | `state=ready,delayed` | in one of these states; `leased` jobs are running |
/// | `id=5` `id=5..10` `id>=5` | by id |
/// | `priority<0` `attempts>=2` `generation=0` | by priority, by attempts in this generation, by number of redrives |
/// | `age>5m` `age<1d` | that were enqueued longer ago than five minutes, less than a day ago |
/// | `unique=report-7` | with this unique key |
/// | `payload.customer.id=42` `payload.tags[0]="x y"` | by a value of the payload: `=` `!=` `<` `<=` `>` `>=`, and `~` for text that contains a text |
///
/// Values are written as in a [`LetterFilter`](crate::dlq::LetterFilter).
///
/// ```
/// use redrive::admin::JobFilter;
///
/// let filter: JobFilter = "queue=orders state=ready age>5m payload.amount>100".parse()?;
/// assert_eq!(filter.to_string(), "queue=orders state=ready age>5m payload.amount>100");
/// # Ok::<(), redrive::Error>(())
/// ```
impl FromStr for JobFilter {
    type Err = Error;

    fn from_str(text: &str) -> Result<JobFilter> {
        let mut filter = JobFilter::default();
        each_condition(text, |condition| read(&mut filter.filter, condition))?;
        Ok(filter)
    }
}

impl JobFilter {
    /// Parses a text as exactly one condition, such as one argument of a shell, and adds it. A
    /// value may contain spaces without quotes.
    ///
    /// # Errors
    /// *Invalid* if the text is not a condition, or if the filter has such a condition; the
    /// message lists the conditions.
    pub fn and_condition(mut self, text: &str) -> Result<JobFilter> {
        one_condition(text, |condition| read(&mut self.filter, condition))?;
        Ok(self)
    }

    /// Returns the conditions, each as text. Leaves out `after` and the limit.
    pub fn conditions(&self) -> Vec<String> {
        let filter = &self.filter;
        let mut conditions = Vec::new();
        let mut say = |key: &str, value: Option<String>| {
            conditions.extend(value.map(|value| format!("{key}{value}")));
        };
        let text = |text: &Option<String>| text.as_deref().map(written);
        let age = |milliseconds: Option<i64>| {
            milliseconds.map(|ms| format_duration(Duration::from_millis(ms.unsigned_abs())))
        };
        let joined = |ids: &Vec<i64>| {
            let ids: Vec<String> = ids.iter().map(ToString::to_string).collect();
            ids.join(",")
        };
        say("queue=", text(&filter.queue));
        say("kind=", text(&filter.kind));
        say(
            "state=",
            filter.state.as_ref().map(|states| states.join(",")),
        );
        say("id=", filter.ids.as_ref().map(joined));
        say("id>=", filter.id_from.map(|id| id.to_string()));
        say("id<=", filter.id_to.map(|id| id.to_string()));
        say("priority>=", filter.priority_from.map(|n| n.to_string()));
        say("priority<=", filter.priority_to.map(|n| n.to_string()));
        say("attempts>=", filter.attempts_from.map(|n| n.to_string()));
        say("attempts<=", filter.attempts_to.map(|n| n.to_string()));
        say(
            "generation>=",
            filter.generation_from.map(|n| n.to_string()),
        );
        say("generation<=", filter.generation_to.map(|n| n.to_string()));
        say("age>", age(filter.older_than_ms));
        say("age<", age(filter.newer_than_ms));
        say("unique=", text(&filter.unique));
        conditions.extend(filter.payload.iter().map(ToString::to_string));
        conditions
    }
}

/// Writes the conditions; an empty filter writes nothing. Leaves out `after` and the limit.
impl fmt::Display for JobFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.conditions().join(" "))
    }
}

/// Parses one condition into the filter.
fn read(filter: &mut JobConditions, condition: &str) -> std::result::Result<(), Trouble> {
    let (key, comparison, value) = parts(condition, CONDITIONS)?;
    let value = Text { text: value };
    let text = || only_equal(key, comparison).and_then(|()| value.one());
    match key {
        "queue" => once(&mut filter.queue, text()?, key),
        "kind" => once(&mut filter.kind, text()?, key),
        "unique" => once(&mut filter.unique, text()?, key),
        "state" => {
            only_equal(key, comparison)?;
            let states = match &*value.several()? {
                [any] if any == "any" => JobState::ALL.map(JobState::as_str).to_vec(),
                words => words
                    .iter()
                    .map(|word| word.parse().map(JobState::as_str))
                    .collect::<Result<_>>()
                    .map_err(|error| format!("has an invalid value: {error}, or any"))?,
            };
            once(&mut filter.state, states, key)
        }
        "id" => match ids(comparison, &value)? {
            Ids::These(ids) => once(&mut filter.ids, ids, key),
            Ids::Range(from, to) => bounds(&mut filter.id_from, &mut filter.id_to, from, to, key),
        },
        "priority" => {
            let (least, most) = (i64::from(i16::MIN), i64::from(i16::MAX));
            let (from, to) = range(comparison, value.text, least, most)?;
            let (low, high) = (&mut filter.priority_from, &mut filter.priority_to);
            bounds(low, high, from, to, key)
        }
        "attempts" => {
            let (from, to) = count_range(comparison, &value, key)?;
            let (low, high) = (&mut filter.attempts_from, &mut filter.attempts_to);
            bounds(low, high, from, to, key)
        }
        "generation" => {
            let (from, to) = count_range(comparison, &value, key)?;
            let (low, high) = (&mut filter.generation_from, &mut filter.generation_to);
            bounds(low, high, from, to, key)
        }
        "age" => age(
            &mut filter.older_than_ms,
            &mut filter.newer_than_ms,
            comparison,
            &value.one()?,
        ),
        _ if is_payload(key) => {
            filter.payload.push(payload(key, comparison, &value)?);
            Ok(())
        }
        _ => Err(unknown_field(key, CONDITIONS)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_reads_back_as_written() {
        for (text, canonical) in [
            ("", ""),
            ("  queue=orders\tkind=a ", "queue=orders kind=a"),
            ("kind=\"a b\"", "kind=\"a b\""),
            ("state=ready,leased", "state=ready,leased"),
            ("state=any", "state=ready,delayed,leased"),
            ("id=5,6", "id=5,6"),
            ("id=5..6", "id>=5 id<=6"),
            ("priority<0 priority>=-10", "priority>=-10 priority<=-1"),
            (
                "attempts>=2 generation=0",
                "attempts>=2 generation>=0 generation<=0",
            ),
            ("age>300s age<1d", "age>5m age<1d"),
            ("unique=report-7", "unique=report-7"),
            ("payload.a[0]=1", "payload.a[0]=1"),
        ] {
            let filter: JobFilter = text.parse().expect(text);
            assert_eq!(filter.to_string(), canonical);
            assert_eq!(canonical.parse::<JobFilter>().expect(canonical), filter);
        }
    }

    #[test]
    fn a_wrong_condition_is_refused_with_its_reason() {
        for (text, why) in [
            ("died>2h", "expected one of queue=, kind=, state="),
            ("queue", "has no operator"),
            ("queue!=a", "does not support `!=`"),
            ("state=open", "unknown job state `open`"),
            ("age=5m", "only supports age> and age<"),
            ("age>tomorrow", "not an age"),
            ("attempts<0", "negative attempts"),
            ("priority>99999", "too large"),
            ("queue=a queue=b", "repeats `queue`"),
            ("payload=1", "names no payload path"),
        ] {
            let error = text.parse::<JobFilter>().expect_err(text);
            assert!(
                error.is_invalid() && error.to_string().contains(why),
                "{text}: {error}"
            );
        }
        let orders = JobFilter::new().queue("orders");
        assert!(orders.and_condition("queue=mails").is_err());
    }
}
