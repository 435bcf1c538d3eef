//! The filter language: what it accepts, how it writes filters, and its errors.

use super::syntax::MAX_BYTES;
use super::*;

fn filter(text: &str) -> LetterFilter {
    text.parse().expect(text)
}

/// Asserts that a text is written in this form, which reads back.
#[track_caller]
fn assert_written<F: Fields>(text: &str, canonical: &str) {
    let filter: Filter<F> = text.parse().expect(text);
    assert_eq!(filter.to_string(), canonical);
    assert_eq!(canonical.parse::<Filter<F>>().expect(canonical), filter);
}

#[test]
fn a_filter_is_written_in_one_form_that_reads_back() {
    for text in [
        "",
        "queue=orders",
        "queue=\"my orders\" kind=order.placed class=Timeout,\"a, b\",\"\\\"\" group=12,13",
        "cause=exhausted,worker_lost state=open,quarantined id=5,7",
        "state=any id>=5 id<=10 id!=7 generation>=2 generation<=3 generation!=4",
        "age>2h age<1d12h died>=2026-11-20T10:00:00Z died<2026-11-21T00:00:00Z",
        "message~card version=1.4 host=web-1 source=kafka:orders run=7 audit=412",
        "payload.customer.id=42 payload.amount>100 payload.tags[0]=\"x y\" payload.a.\"b c\"!=\"42\" payload[0]~x",
        "payload.a=null payload.b=\"null\" payload.c<=-1.5 payload.d=123456789012345678901234567890",
    ] {
        assert_written::<LetterFields>(text, text);
    }
    for (said, written) in [
        ("  queue=a\n kind=b ", "queue=a kind=b"),
        ("id=5..10", "id>=5 id<=10"),
        ("id>5 id<10", "id>=6 id<=9"),
        ("generation=2", "generation>=2 generation<=2"),
        ("age>90m", "age>1h30m"),
        ("died<2026-11-20", "died<2026-11-20T00:00:00Z"),
        ("class=\"Timeout\"", "class=Timeout"),
        ("queue=a=b", "queue=\"a=b\""),
        ("payload.\"a\".b=x,y", "payload.a.b=\"x,y\""),
        ("message~\"card declined\"", "message~\"card declined\""),
    ] {
        assert_written::<LetterFields>(said, written);
    }
    for (said, written) in [
        ("state=ready,leased", "state=ready,leased"),
        ("state=ready,delayed,leased", "state=any"),
        (
            "priority<0 priority>=-10 priority!=-5",
            "priority>=-10 priority<=-1 priority!=-5",
        ),
        (
            "attempts>=2 generation=0",
            "attempts>=2 generation>=0 generation<=0",
        ),
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
        ("=red", "names no field"),
        ("queue>a", "write `queue=`"),
        ("queue=", "has no value"),
        ("queue=a queue=b", "repeats `queue`"),
        ("class=A class=A", "repeats `class`"),
        ("age>1h age>2h", "repeats `age`"),
        ("id>5 id=5..9", "repeats `id`"),
        ("queue=\"a", "unclosed quotation mark"),
        ("queue=\"a\"b", "after its quotes"),
        ("queue=a\"b\"", "inside a value"),
        ("queue=\"\\x\"", "invalid JSON string"),
        ("queue=\"\\u0000\"", "NUL"),
        ("queue=a\0", "NUL"),
        ("class=a,", "has no value"),
        ("cause=bored", "expected one of exhausted"),
        ("state=dead", "or any"),
        ("id=x", "whole number"),
        ("id=10..5", "before it begins"),
        ("id~5", "=FROM..TO"),
        ("generation=-1", "not between 0 and 2147483647"),
        ("generation>2147483647", "matches nothing"),
        ("generation=99999999999", "not between"),
        ("died=2h", "write `died>=` or `died<`"),
        ("died>2h", "write age>2h"),
        ("died<1d12h", "age<1d12h"),
        ("age=2h", "write `age>` or `age<`"),
        ("age>2026-11-20", "not an age"),
        ("died>yesterday", "not a time"),
        ("message=x", "message~"),
        ("message~\"\"", "has no value"),
        ("payload=1", "payload.PATH"),
        ("payload.a!1", "not followed by"),
        ("payload.=1", "is empty"),
        ("payload.a[x]=1", "not a number"),
        ("payload.a=", "has no value"),
        ("payload.a~\"\"", "needs a text"),
        ("message~card declined", "`declined`"),
    ] {
        let error = text.parse::<LetterFilter>().expect_err(text);
        error.assert_invalid(why);
    }
    assert!("x".repeat(MAX_BYTES + 1).parse::<LetterFilter>().is_err());
}

#[test]
fn a_wrong_condition_on_jobs_is_refused_with_its_reason() {
    for (text, why) in [
        ("died>2h", "expected one of queue=orders, kind="),
        ("queue!=a", "does not support `!=`"),
        ("state=open", "unknown job state `open`"),
        ("attempts<0", "matches nothing"),
        ("priority>99999", "not between -32768 and 32767"),
        ("payload=1", "names no payload path"),
    ] {
        let error = text.parse::<JobFilter>().expect_err(text);
        error.assert_invalid(why);
    }
}

#[test]
fn conditions_one_by_one_equal_their_joined_text() {
    for text in [
        "queue=orders kind=a class=A,B group=1 cause=timeout",
        "id>=5 age>2h id<=9 age<1d state=any",
        "died>=2026-11-20 payload.a=1 died<2026-11-21 payload.a=1",
    ] {
        let mut conditions = text.split(' ');
        let joined = conditions.try_fold(LetterFilter::new(), LetterFilter::condition);
        assert_eq!(joined.expect(text), filter(text));
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
