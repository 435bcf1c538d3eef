//! Joins two filters.

use crate::dlq::filter::value::{Trouble, once};
use crate::dlq::filter::{Filter, LetterFilter};
use crate::error::{Error, Result};

impl LetterFilter {
    /// Selects letters that meet both filters.
    ///
    /// ```
    /// use redrive::dlq::LetterFilter;
    ///
    /// let slow = LetterFilter::new().queue("orders").error_class("Timeout");
    /// let old = LetterFilter::parse_condition("age>2h")?;
    /// assert_eq!(slow.and(old)?.to_string(), "queue=orders class=Timeout age>2h");
    /// # Ok::<(), redrive::Error>(())
    /// ```
    ///
    /// # Errors
    /// *Invalid* if both filters have the same condition, a [limit](LetterFilter::limit) or a
    /// [page](LetterFilter::after). Conditions on the payload may repeat.
    pub fn and(mut self, other: LetterFilter) -> Result<LetterFilter> {
        let LetterFilter {
            filter,
            after,
            limit,
        } = other;
        conditions(&mut self.filter, filter)
            .and_then(|()| merge(&mut self.after, after, "after"))
            .and_then(|()| merge(&mut self.limit, limit, "limit"))
            .map_err(|why| Error::invalid(format!("the filter {why}")))?;
        Ok(self)
    }
}

/// Adds all conditions of a filter. The pattern names each field so that none is forgotten.
fn conditions(filter: &mut Filter, other: Filter) -> std::result::Result<(), Trouble> {
    let Filter {
        ids,
        id_from,
        id_to,
        queue,
        kind,
        class,
        group,
        cause,
        state,
        died_from,
        died_to,
        older_than_ms,
        newer_than_ms,
        generation_from,
        generation_to,
        payload,
        message,
        version,
        host,
        source,
        run,
        audit,
    } = other;
    merge(&mut filter.ids, ids, "id")?;
    merge(&mut filter.id_from, id_from, "id")?;
    merge(&mut filter.id_to, id_to, "id")?;
    merge(&mut filter.queue, queue, "queue")?;
    merge(&mut filter.kind, kind, "kind")?;
    merge(&mut filter.class, class, "class")?;
    merge(&mut filter.group, group, "group")?;
    merge(&mut filter.cause, cause, "cause")?;
    merge(&mut filter.state, state, "state")?;
    merge(&mut filter.died_from, died_from, "died")?;
    merge(&mut filter.died_to, died_to, "died")?;
    merge(&mut filter.older_than_ms, older_than_ms, "age")?;
    merge(&mut filter.newer_than_ms, newer_than_ms, "age")?;
    merge(&mut filter.generation_from, generation_from, "generation")?;
    merge(&mut filter.generation_to, generation_to, "generation")?;
    merge(&mut filter.message, message, "message")?;
    merge(&mut filter.version, version, "version")?;
    merge(&mut filter.host, host, "host")?;
    merge(&mut filter.source, source, "source")?;
    merge(&mut filter.run, run, "run")?;
    merge(&mut filter.audit, audit, "audit")?;
    filter.payload.extend(payload);
    Ok(())
}

fn merge<T>(
    field: &mut Option<T>,
    value: Option<T>,
    key: &str,
) -> std::result::Result<(), Trouble> {
    value.map_or(Ok(()), |value| once(field, value, key))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::job::JobId;

    fn filter(text: &str) -> LetterFilter {
        text.parse().expect(text)
    }

    #[test]
    fn joined_filters_equal_their_joined_texts() {
        for (left, right) in [
            ("", "queue=orders"),
            ("queue=orders kind=a", "class=A,B group=1 cause=timeout"),
            ("id>=5 age>2h", "id<=9 age<1d state=any"),
            (
                "died>=2026-11-20 payload.a=1",
                "died<2026-11-21 payload.a=1",
            ),
            (
                "id=5",
                "generation=2 message~x version=1 host=h source=s run=7 audit=9",
            ),
        ] {
            let joined = filter(left).and(filter(right)).expect(left);
            assert_eq!(joined, filter(&format!("{left} {right}")));
        }
        let joined = LetterFilter::new().limit(5).and(LetterFilter::new());
        let other = LetterFilter::new().after(JobId::new(1));
        assert_eq!(
            joined.and_then(|filter| filter.and(other)).expect("a page"),
            LetterFilter::new().limit(5).after(JobId::new(1))
        );
    }

    #[test]
    fn a_condition_in_both_filters_is_rejected() {
        for (left, right, key) in [
            ("class=A", "class=B", "`class`"),
            ("queue=a", "queue=a", "`queue`"),
            ("age>1h", "age>2h", "`age`"),
            ("id>5", "id=5..9", "`id`"),
        ] {
            let error = filter(left).and(filter(right)).expect_err(left);
            assert!(
                error.is_invalid() && error.to_string().contains(key),
                "{error}"
            );
        }
        let limited = || LetterFilter::new().limit(5);
        assert!(limited().and(limited()).is_err());
    }
}
