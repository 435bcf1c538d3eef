//! The fields of filters. Each is declared here and nowhere else: the table makes its text, its JSON, its help, its
//! methods and, by `cargo xtask generate`, the table of its keys in the database.

use std::str::FromStr;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::dlq::filter::field::{Field, Key, Kind};
use crate::dlq::filter::syntax::next_condition;
use crate::dlq::filter::{Fields, Filter, JobFields, LetterFields, moment};
use crate::dlq::id::{GroupId, RunId};
use crate::dlq::state::LetterState;
use crate::error::{Error, Result};
use crate::job::death_cause::DeathCause;
use crate::job::duration::MAX_DURATION;
use crate::job::job::JobId;
use crate::job::job_state::JobState;
use crate::job::milliseconds::milliseconds;

/// What a method of a filter takes, as its condition stores it.
trait Argument {
    fn json(self) -> Value;
}

macro_rules! arguments {
    ($($type:ty: $value:ident => $json:expr;)*) => {$(
        impl Argument for $type {
            fn json(self) -> Value {
                let $value = self;
                Value::from($json)
            }
        }
    )*};
}

arguments! {
    String: text => text;
    i64: number => number;
    i16: number => number;
    u32: count => count;
    JobId: id => id.get();
    GroupId: id => id.get();
    RunId: id => id.get();
    DeathCause: cause => cause.as_str();
    LetterState: state => state.as_str();
    JobState: state => state.as_str();
    Duration: age => milliseconds(age.min(MAX_DURATION));
    SystemTime: at => moment::written(at);
}

/// The type of an argument.
macro_rules! argument {
    (String) => { impl Into<String> };
    ($type:ty) => { $type };
}

/// Declares the fields: name, kind, columns of those that have it, an example, what it selects, and the methods that
/// set its keys. A method takes one value, a list of values, or one value of a list (`in`).
macro_rules! fields {
    ($($name:literal, $kind:expr, [$($of:ident.$column:ident),+], $example:literal, $selects:literal, $methods:tt)*) => {
        /// Every field, in the order in which filters are written.
        const FIELDS: &[Field] = &[$(Field {
            name: $name,
            kind: $kind,
            columns: &[$((stringify!($of), stringify!($column))),+],
            example: $example,
            selects: $selects,
        }),*];

        /// Parses a filter: conditions separated by blanks, which must all hold.
        ///
        /// | condition | of | selects those |
        /// |---|---|---|
        #[doc = concat!($("| `", $example, "` |", $(" ", stringify!($of),)+ " | ", $selects, " |\n"),*)]
        ///
        /// An age is a duration, such as `90s`, `1h30m`, `1.5h` or `7d`; months and years are not accepted.
        /// A time without `Z` or an offset is UTC. `id=5..10`, `id>=5` and `generation!=0` are ranges of numbers.
        /// The operators on the payload are `=` `!=` `<` `<=` `>` `>=`, and `~` for text that contains a text.
        ///
        /// Commas separate several values of `class`, and several words or numbers. A value with blanks or punctuation
        /// is quoted as in JSON. A bare payload value that looks like a number, `true`, `false` or `null` has that type;
        /// quoted, it is text.
        ///
        /// ```
        /// use redrive::admin::JobFilter;
        /// use redrive::dlq::LetterFilter;
        ///
        /// let filter: LetterFilter = "queue=orders class=Timeout age>2h payload.amount>100".parse()?;
        /// assert_eq!(filter.to_string(), "queue=orders class=Timeout age>2h payload.amount>100");
        /// let filter: JobFilter = "queue=orders state=ready age>5m".parse()?;
        /// assert_eq!(filter.to_string(), "queue=orders state=ready age>5m");
        /// # Ok::<(), redrive::Error>(())
        /// ```
        impl<F: Fields> FromStr for Filter<F> {
            type Err = Error;

            fn from_str(text: &str) -> Result<Filter<F>> {
                let (mut filter, mut rest) = (Filter::new(), text.trim_start());
                while !rest.is_empty() {
                    let (condition, after) = next_condition(rest);
                    filter.read(condition)?;
                    rest = after.trim_start();
                }
                Ok(filter)
            }
        }

        $($(fields!(@impl $of $methods);)+)*
    };
    (@impl letters $methods:tt) => { fields!(@methods LetterFields "letters" $methods); };
    (@impl jobs $methods:tt) => { fields!(@methods JobFields "jobs" $methods); };
    (@methods $fields:ident $noun:literal {}) => {};
    (@methods $fields:ident $noun:literal { $($method:ident($($argument:tt)+) $key:literal $selects:literal;)+ }) => {
        impl Filter<$fields> {
            $(fields!(@method $noun $method ($($argument)+) $key $selects);)+
        }
    };
    (@method $noun:literal $method:ident([$type:ident]) $key:literal $selects:literal) => {
        #[doc = concat!("Selects ", $noun, " ", $selects, ".")]
        pub fn $method(self, values: impl IntoIterator<Item = argument!($type)>) -> Self {
            let values = values.into_iter().map(|value| {
                let value: $type = value.into();
                value.json()
            });
            self.with($key, values.collect())
        }
    };
    (@method $noun:literal $method:ident(in $type:ident) $key:literal $selects:literal) => {
        #[doc = concat!("Selects ", $noun, " ", $selects, ".")]
        pub fn $method(self, value: argument!($type)) -> Self {
            let value: $type = value.into();
            self.with($key, Value::from([value.json()]))
        }
    };
    (@method $noun:literal $method:ident($type:ident) $key:literal $selects:literal) => {
        #[doc = concat!("Selects ", $noun, " ", $selects, ".")]
        pub fn $method(self, value: argument!($type)) -> Self {
            let value: $type = value.into();
            self.with($key, value.json())
        }
    };
}

const CAUSES: Kind = Kind::Words(&DeathCause::WORDS, &DeathCause::WORDS);
const LETTER_STATES: Kind = Kind::Words(&LetterState::WORDS, &LetterState::WORDS);
// A finished job is none of those that an operator looks for, unless he says so.
const JOB_STATES: Kind = Kind::Words(&JobState::WORDS, &["ready", "delayed", "leased"]);

fields! {
    "queue", Kind::Text, [letters.queue, jobs.queue], "queue=orders", "of this queue", {
        queue(String) "queue" "of one queue";
    }
    "kind", Kind::Text, [letters.kind, jobs.kind], "kind=order.placed", "of this kind", {
        kind(String) "kind" "of this kind";
    }
    "class", Kind::Texts, [letters.error_class], "class=Timeout,Refused", "whose last error has one of these classes", {
        error_class(in String) "class" "whose last error has this class";
        error_classes([String]) "class" "whose last error has one of these classes";
    }
    "group", Kind::Integers, [letters.group_id], "group=12", "in one of these failure groups", {
        group(in GroupId) "group" "of one failure group";
        groups([GroupId]) "group" "of these failure groups";
    }
    "cause", CAUSES, [letters.cause], "cause=exhausted", "with one of these causes of death", {
        cause(in DeathCause) "cause" "with this cause of death";
        causes([DeathCause]) "cause" "with one of these causes of death";
    }
    "state", LETTER_STATES, [letters.state], "state=open,quarantined", "in one of these states; state=any", {
        state(in LetterState) "state" "in this state. A command that changes letters ignores states it cannot change";
        states([LetterState]) "state" "in one of these states";
    }
    "state", JOB_STATES, [jobs.state], "state=ready,delayed", "in these states; leased: running; any: all but done", {
        state(in JobState) "state" "in this state. A bulk operation ignores leased and done jobs";
        states([JobState]) "state" "in one of these states";
    }
    "id", Kind::Range("ids"), [letters.id, jobs.id], "id=5..10", "with these ids", {
        ids([JobId]) "ids" "with these ids";
        ids_from(JobId) "id_from" "with this id or a higher one";
        ids_until(JobId) "id_to" "with this id or a lower one";
    }
    "priority", Kind::Range("priority"), [jobs.priority], "priority<0", "by priority", {
        priority_from(i16) "priority_from" "with this priority or a higher one";
        priority_to(i16) "priority_to" "with this priority or a lower one";
    }
    "attempts", Kind::Range("attempts"), [jobs.attempt], "attempts>=2", "by the attempts in this generation", {
        attempts_from(u32) "attempts_from" "with at least this many attempts in this generation, including a running one";
    }
    "generation", Kind::Range("generation"), [letters.generation, jobs.generation], "generation>=2", "that were redriven twice or more", {
        generation_from(u32) "generation_from" "redriven at least this many times before";
        generation_to(u32) "generation_to" "redriven at most this many times before";
    }
    "age", Kind::Age, [letters.died_at, jobs.enqueued_at], "age>2h", "that died, or were enqueued, longer ago", {
        older_than(Duration) "older_than_ms" "of a greater age, by the database's clock: since the death of a letter, since a job was enqueued";
        newer_than(Duration) "newer_than_ms" "of a lower age, by the database's clock: since the death of a letter, since a job was enqueued";
    }
    "died", Kind::Moment, [letters.died_at], "died<2026-11-20T10:00Z", "that died before this time", {
        died_from(SystemTime) "died_from" "that died at this time or later";
        died_before(SystemTime) "died_to" "that died before this time";
    }
    "message", Kind::Part, [letters.error_message], "message~\"card declined\"", "whose message contains this, ignoring case", {
        message(String) "message" "whose error message contains this text, ignoring case";
    }
    "version", Kind::Text, [letters.version], "version=1.4", "that died under this version of the program", {
        version(String) "version" "that died under this version of the program";
    }
    "host", Kind::Text, [letters.host], "host=web-1", "that died on this host", {
        host(String) "host" "that died on this host";
    }
    "source", Kind::Text, [letters.source], "source=kafka:orders", "captured from this source", {
        source(String) "source" "captured from this source";
    }
    "run", Kind::Integers, [letters.run_id], "run=7", "that one of these runs last redrove", {
        run(in RunId) "run" "that this run last redrove";
    }
    "audit", Kind::Operation, [letters.audit_id], "audit=412", "that the operation of this audit record changed last", {
        audit(i64) "audit" "that an operation was the last to discard, reopen, restore or edit, by the id of its audit record";
    }
    "unique", Kind::Text, [jobs.unique_key], "unique=report-7", "with this unique key", {
        unique(String) "unique" "with this unique key";
    }
    "job_group", Kind::Text, [letters.group_key, jobs.group_key], "job_group=customer:1", "of this group of jobs", {
        job_group(String) "job_group" "of this group of jobs";
    }
    "payload", Kind::Payload, [letters.payload, jobs.payload], "payload.customer.id=42", "by a value in the payload", {}
}

/// Returns the fields of `letters` or of `jobs`.
pub(crate) fn fields(of: &'static str) -> impl Iterator<Item = &'static Field> {
    FIELDS
        .iter()
        .filter(move |field| field.columns.iter().any(|column| column.0 == of))
}

/// Returns the file that gives the database the keys of filters.
pub fn filter_keys() -> String {
    let mut rows = Vec::new();
    for field in FIELDS {
        let columns = [(LetterFields::OF, 'l'), (JobFields::OF, 'j')].map(|(of, alias)| {
            let column = field.columns.iter().find(|column| column.0 == of);
            column.map_or("NULL".to_owned(), |column| {
                format!("'{alias}.{}'", column.1)
            })
        });
        let columns = columns.join(", ");
        for Key { json, takes, .. } in field.keys() {
            rows.push(format!("        ('{json}', '{takes}', {columns})"));
        }
    }
    format!(
        "\
-- Purpose: The keys of filters. `cargo xtask generate` writes this file, from crates/redrive/src/dlq/filter/fields.rs.

-- Returns the keys of filters of `letters` or `jobs`, what each takes (see `filter_condition`) and the column it compares.
CREATE OR REPLACE FUNCTION redrive.filter_keys(subject text) RETURNS TABLE (key text, takes text, compared text)
    LANGUAGE sql IMMUTABLE PARALLEL SAFE
BEGIN ATOMIC
    SELECT k.key, k.takes, c.compared
    FROM (VALUES
{}
    ) AS k (key, takes, letters, jobs)
    CROSS JOIN LATERAL (SELECT CASE subject WHEN 'letters' THEN k.letters ELSE k.jobs END) AS c (compared)
    WHERE c.compared IS NOT NULL;
END;
",
        rows.join(",\n")
    )
}
