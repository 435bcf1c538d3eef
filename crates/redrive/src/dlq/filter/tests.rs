//! The filter language: what it accepts, how it writes filters, and its errors.

use super::*;

/// Asserts that a text is written in this form, which reads back.
#[track_caller]
fn assert_written<F: Fields>(text: &str, canonical: &str) {
    let filter: Filter<F> = text.parse().expect(text);
    assert_eq!(filter.to_string(), canonical);
    assert_eq!(canonical.parse::<Filter<F>>().expect(canonical), filter);
}

#[test]
fn a_filter_is_written_in_one_form_that_reads_back() {
    for (said, written) in [
        ("  queue=a\n kind=b ", "queue=a kind=b"),
        (
            "class=\"Timeout\",\"a, b\",\"\\\"\" state=any",
            "class=Timeout,\"a, b\",\"\\\"\" state=any",
        ),
        ("id=5..10 id!=7,9", "id>=5 id<=10 id!=7,9"),
        ("id>5 id<10", "id>=6 id<=9"),
        ("generation=2,3", "generation=2,3"),
        ("age>90m age<1d", "age>1h30m age<1d"),
        (
            "died>2026-11-20 died<=2026-11-21",
            "died>=2026-11-20T00:00:00Z died<2026-11-21T00:00:00Z",
        ),
        ("queue=a=b", "queue=\"a=b\""),
        (
            "payload.\"a\".\"b c\"[0]=x,y payload.d<=-1.5 payload.e=\"42\"",
            "payload.a.\"b c\"[0]=\"x,y\" payload.d<=-1.5 payload.e=\"42\"",
        ),
        ("message~\"card declined\"", "message~\"card declined\""),
    ] {
        assert_written::<LetterFields>(said, written);
    }
    for (said, written) in [
        ("state=ready,delayed,leased", "state=any"),
        ("priority<0 attempts>=2", "priority<=-1 attempts>=2"),
        ("unique=report-7 age>300s", "age>5m unique=report-7"),
    ] {
        assert_written::<JobFields>(said, written);
    }
}

#[test]
fn an_invalid_condition_reports_itself_and_the_alternatives() {
    for (text, why) in [
        ("orders", "has no operator"),
        ("colour=red", "unknown field"),
        ("=red", "unknown field"),
        ("queue>a", "write `queue=`"),
        ("queue=", "has no value"),
        ("queue=a queue=b", "repeats `queue`"),
        ("id>5 id=5..9", "repeats `id`"),
        ("queue=\"a", "quotes that do not close"),
        ("queue=\"a\"b", "after its quotes"),
        ("queue=a\"b\"", "inside a value"),
        ("queue=\"\\x\"", "not around a JSON string"),
        ("queue=\"\\u0000\"", "without NUL"),
        ("queue=a\0", "NUL"),
        ("cause=bored", "expected one of exhausted"),
        ("state=dead", "or any"),
        ("id=x", "whole number"),
        ("id=10..5", "before it begins"),
        ("id~5", "write `id=` or `id>=`"),
        ("generation>x", "whole number"),
        ("died>2h", "write age>2h"),
        ("age=2h", "write `age>` or `age<`"),
        ("age>2026-11-20", "expected a duration"),
        ("died>yesterday", "expected a time"),
        ("died>2026-02-29", "expected a time"),
        ("died>2026-11-20T24:00", "expected a time"),
        ("died>2026-11-20T10:00+99:00", "expected a time"),
        ("died>2026-11-20T10:00[Europe/Berlin]", "expected a time"),
        ("payloads=1", "unknown field"),
        ("payload.a!1", "has no operator"),
        ("payload.=1", "an empty name"),
        ("payload..a=1", "an empty name"),
        ("payload.a..b=1", "an empty name"),
        ("payload.a[x]=1", "not a number"),
        ("payload.a[0=1", "without a `]`"),
        ("payload.a\"b\"=1", "no dot"),
        ("payload.a~\"\"", "needs a text"),
        ("message~card declined", "`declined`"),
    ] {
        let error = text.parse::<LetterFilter>().expect_err(text);
        error.assert_invalid(why);
    }
    for (text, why) in [
        ("died>2h", "expected one of queue=orders, kind="),
        ("state=open", "has no state `open`"),
    ] {
        let error = text.parse::<JobFilter>().expect_err(text);
        error.assert_invalid(why);
    }
}

#[test]
fn every_example_of_the_help_is_a_condition() {
    fn check<F: Fields>(help: &str) {
        for line in help.lines() {
            let example = line.split("  ").find(|part| !part.is_empty());
            let example = example.expect("an example");
            assert!(Filter::<F>::new().condition(example).is_ok(), "{example}");
            assert!(line.len() <= 80, "{line}");
        }
    }
    check::<LetterFields>(&LetterFilter::help());
    check::<JobFields>(&JobFilter::help());
    let spaced = LetterFilter::new().condition("class=exit 1");
    let built = LetterFilter::new().error_class("exit 1");
    assert_eq!(spaced.expect("one condition"), built);
}

#[test]
fn a_filter_of_many_ids_selects_letters_and_is_not_recorded() {
    let many = LetterFilter::new().ids((0..200_000).map(JobId::new));
    assert!(many.whole().is_ok());
    many.recorded()
        .expect_err("too long")
        .assert_invalid("limit");
}
