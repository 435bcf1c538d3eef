//! Writes a filter as text that parses to the same filter.

use std::fmt;
use std::time::Duration;

use crate::dlq::filter::syntax::value;
use crate::dlq::filter::{Filter, LetterFilter};
use crate::dlq::state::LetterState;
use crate::job::duration::format_duration;

/// Writes the conditions; an empty filter writes nothing. Leaves out `after` and the limit.
impl fmt::Display for LetterFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&conditions(&self.filter).join(" "))
    }
}

impl LetterFilter {
    /// Returns the conditions, each as text. Leaves out `after` and the limit.
    ///
    /// ```
    /// use redrive::dlq::LetterFilter;
    ///
    /// let filter = LetterFilter::new().queue("orders").error_class("exit 1");
    /// assert_eq!(filter.conditions(), ["queue=orders", r#"class="exit 1""#]);
    /// ```
    pub fn conditions(&self) -> Vec<String> {
        conditions(&self.filter)
    }
}

fn conditions(filter: &Filter) -> Vec<String> {
    let mut conditions = Vec::new();
    let mut say = |key: &str, values: Option<Vec<String>>| {
        conditions.extend(values.map(|values| format!("{key}{}", values.join(","))));
    };
    let texts = |texts: &Option<Vec<String>>| {
        texts
            .as_ref()
            .map(|texts| texts.iter().map(|text| value(text)).collect())
    };
    let text = |text: &Option<String>| text.as_ref().map(|text| vec![value(text)]);
    let numbers = |numbers: &Option<Vec<i64>>| {
        numbers
            .as_ref()
            .map(|ids| ids.iter().map(ToString::to_string).collect())
    };
    let number = |number: Option<i64>| number.map(|number| vec![number.to_string()]);
    let words = |words: &Option<Vec<&'static str>>| {
        words.as_ref().map(|words| {
            words
                .iter()
                .map(|word| (*word).to_owned())
                .collect::<Vec<_>>()
        })
    };
    say("queue=", text(&filter.queue));
    say("kind=", text(&filter.kind));
    say("class=", texts(&filter.class));
    say("group=", numbers(&filter.group));
    say("cause=", words(&filter.cause));
    let all = LetterState::ALL.map(LetterState::as_str);
    say(
        "state=",
        words(&filter.state).map(|states| match states.iter().eq(all.iter()) {
            true => vec!["any".to_owned()],
            false => states,
        }),
    );
    say("id=", numbers(&filter.ids));
    say("id>=", number(filter.id_from));
    say("id<=", number(filter.id_to));
    say(
        "generation>=",
        number(filter.generation_from.map(i64::from)),
    );
    say("generation<=", number(filter.generation_to.map(i64::from)));
    let age = |milliseconds: Option<i64>| {
        milliseconds.map(|ms| vec![format_duration(Duration::from_millis(ms.unsigned_abs()))])
    };
    say("age>", age(filter.older_than_ms));
    say("age<", age(filter.newer_than_ms));
    say("died>=", text(&filter.died_from));
    say("died<", text(&filter.died_to));
    say("message~", text(&filter.message));
    say("version=", text(&filter.version));
    say("host=", text(&filter.host));
    say("source=", text(&filter.source));
    say("run=", number(filter.run));
    say("audit=", number(filter.audit));
    conditions.extend(filter.payload.iter().map(ToString::to_string));
    conditions
}
