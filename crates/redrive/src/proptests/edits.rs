//! Edits: JSON Patch and merge patches over payloads.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{config, text};
use crate::dlq::edit::Edit;
use crate::job::payload::Json;

/// A payload that the database can store.
fn payload() -> impl Strategy<Value = Value> {
    let name = "[a-c/~]{0,2}";
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        "[ -~é😀]{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, move |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::from),
            vec((name, inner), 0..4).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

fn operation() -> impl Strategy<Value = Value> {
    let path = || "(/([a-c]|~0|~1|[0-3]|-|99999999999999999999)?){0,3}";
    (0..7_u8, path(), path(), payload()).prop_map(|(which, path, from, value)| match which {
        0 => json!({"op": "add", "path": path, "value": value}),
        1 => json!({"op": "remove", "path": path}),
        2 => json!({"op": "replace", "path": path, "value": value}),
        3 => json!({"op": "move", "path": path, "from": from}),
        4 => json!({"op": "copy", "path": path, "from": from}),
        5 => json!({"op": "test", "path": path, "value": value}),
        _ => json!({"op": path, "path": from}),
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_text_is_an_edit_or_rejected(
        edit in text(),
        json in super::json(),
        operations in vec(operation(), 0..5),
        fitting in payload(),
        payload in super::json(),
    ) {
        let (patch, fitting) = (Value::from(operations).to_string(), fitting.to_string());
        for text in [&edit, &json, &patch] {
            for edit in [Edit::patch(text), Edit::merge(text), Edit::set(text)] {
                match edit {
                    // An edit returns a valid payload or an error.
                    Ok(edit) => for old in [None, Some(&*fitting), Some(&*payload), Some(&**text)] {
                        if let Ok(Some(new)) = edit.make(old) {
                            prop_assert!(Json::parse(new.as_str()).is_ok());
                        }
                    },
                    Err(error) => prop_assert!(error.is_invalid()),
                }
            }
        }
    }
}
