//! Generators of texts: valid, almost valid and arbitrary.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::test_runner::Config;

/// The configuration from the environment. Failing inputs become tests instead of regression files.
pub(crate) fn config() -> Config {
    Config {
        failure_persistence: None,
        ..Config::default()
    }
}

/// Characters that some parser treats specially.
const ODD: &str = "\0\t\n\r \"'\\/%$&=!<>~,.:;?#[]{}()-+_@09eETZntuéßİ語😀\
    \u{1}\u{1b}\u{7f}\u{80}\u{85}\u{a0}\u{ad}\u{301}\u{200b}\u{200d}\
    \u{2028}\u{202e}\u{3000}\u{d7ff}\u{e000}\u{fdd0}\u{feff}\u{fffd}\u{ffff}\u{e0001}\u{10ffff}";

fn character() -> impl Strategy<Value = char> {
    prop_oneof![
        3 => select(ODD.chars().collect::<Vec<_>>()),
        2 => any::<char>(),
        2 => proptest::char::range(' ', '~'),
    ]
}

/// Any text, mostly short.
pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => text_of(24),
        1 => text_of(300),
        1 => (character(), 0..3000_usize).prop_map(|(one, times)| one.to_string().repeat(times)),
    ]
}

fn text_of(most: usize) -> impl Strategy<Value = String> {
    vec(character(), 0..most).prop_map(String::from_iter)
}

/// JSON text whose strings may contain anything, even what no string may contain.
pub(crate) fn json() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        number(),
        string(),
    ];
    leaf.prop_recursive(6, 40, 6, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..6).prop_map(|all| format!("[{}]", all.join(" , "))),
            vec((string(), inner), 0..6).prop_map(|members| {
                // No duplicate names, because a parser may keep either.
                let members = members.iter().enumerate().map(|(at, (name, value))| {
                    format!(
                        "\"{at}{}:{value}",
                        name.strip_prefix('"').unwrap_or_default()
                    )
                });
                format!("{{{}}}", members.collect::<Vec<_>>().join(",\n"))
            }),
        ]
    })
}

/// A number that every parser can represent, though not to the last digit.
pub(crate) fn number() -> impl Strategy<Value = String> {
    "-?(0|[1-9][0-9]{0,25})(\\.[0-9]{1,25})?([eE][+-]?[0-9]{1,2})?"
}

/// A JSON string with its quotes.
pub(crate) fn string() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        4 => character().prop_map(|one| serde_json::Value::from(one.to_string()).to_string())
            .prop_map(|quoted| quoted[1..quoted.len() - 1].to_owned()),
        1 => any::<u16>().prop_map(|unit| format!("\\u{unit:04x}")),
        1 => select(&["\\u0000", "\\ud83d\\ude00", "\\ud83d", "\\udc00", "\\\\u0000", "\\/", "\\\\"][..])
            .prop_map(str::to_owned),
    ];
    vec(piece, 0..8).prop_map(|pieces| format!("\"{}\"", pieces.concat()))
}

/// Texts that are almost filters.
pub(crate) fn conditions() -> impl Strategy<Value = String> {
    let keys = "queue kind class group cause state id age died generation message version host source run audit \
                payload.a payload[0] payload payload.\"x_y\"[12].é payload.a..b payload.\" limit ";
    let key = select(keys.split(' ').collect::<Vec<_>>()).prop_map(|key| key.replace('_', " "));
    let operator = select(&["=", "!=", "<", "<=", ">", ">=", "~", "!", "==", ""][..]);
    let value = prop_oneof![
        "[a-z0-9,.:@+-]{0,8}",
        "-?[0-9]{1,20}(\\.\\.-?[0-9]{1,20})?",
        "[0-9]{1,5}(ms|s|m|h|d|w|y)([0-9]{1,5}(ms|s|m|h|d|w))?",
        "[0-9]{4}-[0-9]{2}-[0-9]{2}(T[0-9]{2}:[0-9]{2}(:[0-9]{2}(\\.[0-9]{1,10})?)?(Z|[+-][0-9]{2}:[0-9]{2})?)?",
        "(open|any|exhausted|rejected|true|null|1e5|1e99999)(,open)?",
        string(),
        text(),
    ];
    let one =
        (key, operator, value).prop_map(|(key, operator, value)| format!("{key}{operator}{value}"));
    vec(one, 0..4).prop_map(|all| all.join(" "))
}
