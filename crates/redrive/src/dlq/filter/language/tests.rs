//! The filter language: what it accepts, how it writes filters, and its errors.

use super::*;
use crate::dlq::filter::syntax::MAX_BYTES;

#[test]
fn a_written_filter_parses_to_the_same_filter() {
    for text in [
        "",
        "queue=orders",
        "queue=\"my orders\" kind=order.placed class=Timeout,\"a, b\",\"\\\"\" group=12,13",
        "cause=exhausted,worker_lost state=open,quarantined id=5,7",
        "state=any id>=5 id<=10 generation>=2 generation<=3",
        "age>2h age<1d12h died>=2026-11-20T10:00:00Z died<2026-11-21T00:00:00Z",
        "message~card version=1.4 host=web-1 source=kafka:orders run=7 audit=412",
        "payload.customer.id=42 payload.amount>100 payload.tags[0]=\"x y\" payload.a.\"b c\"!=\"42\" payload[0]~x",
        "payload.a=null payload.b=\"null\" payload.c<=-1.5 payload.d=123456789012345678901234567890",
    ] {
        let filter: LetterFilter = text.parse().expect(text);
        assert_eq!(filter.to_string(), text);
        assert_eq!(
            filter.to_string().parse::<LetterFilter>().expect(text),
            filter
        );
    }
}

#[test]
fn a_condition_has_one_canonical_form() {
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
        assert_eq!(
            said.parse::<LetterFilter>().expect(said).to_string(),
            written
        );
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
        ("generation=-1", "negative"),
        ("generation>2147483647", "matches nothing"),
        ("generation=99999999999", "too large"),
        ("died=2h", "died> and died<"),
        ("died>2h", "write age>2h"),
        ("died<1d12h", "age<1d12h"),
        ("age=2h", "age> and age<"),
        ("age>2026-11-20", "not an age"),
        ("died>yesterday", "not a time"),
        ("message=x", "message~"),
        ("message~\"\"", "has no value"),
        ("payload=1", "payload.PATH"),
        ("payload.a!1", "not followed by"),
        ("payload.=1", "is empty"),
        ("payload.a[x]=1", "not a number"),
        ("payload.a~1", "needs a text"),
        ("message~card declined", "`declined`"),
    ] {
        let error = text.parse::<LetterFilter>().expect_err(text);
        assert!(
            error.is_invalid() && error.to_string().contains(why),
            "{text}: {error}"
        );
    }
    assert!("x".repeat(MAX_BYTES + 1).parse::<LetterFilter>().is_err());
}

#[test]
fn arbitrary_text_never_panics_the_parser() {
    const PIECES: [&str; 42] = [
        "queue",
        "kind",
        "class",
        "group",
        "cause",
        "state",
        "id",
        "age",
        "died",
        "generation",
        "payload",
        "message",
        "run",
        "audit",
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
        if let Ok(filter) = text.parse::<LetterFilter>() {
            taken += 1;
            let written = filter.to_string();
            let again: LetterFilter = written
                .parse()
                .unwrap_or_else(|error| panic!("{text:?} {written:?}: {error}"));
            assert_eq!(again, filter, "{text:?} {written:?}");
        }
    }
    assert!(taken > 500, "{taken}");
}
