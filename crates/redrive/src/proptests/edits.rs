//! Edits: JSON Patch and merge patches over payloads.

use proptest::collection::vec;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{config, text};
use crate::dlq::edit::Edit;

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

fn made(edit: &Edit, payload: &Value) -> Result<Value, String> {
    let text = payload.to_string();
    edit.make(Some(&text)).map(|made| match made {
        None => payload.clone(),
        Some(json) => serde_json::from_str(json.as_str()).expect("what is made is JSON"),
    })
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_text_is_an_edit_or_rejected(edit in text(), json in super::json(), payload in super::json()) {
        for text in [&edit, &json] {
            for edit in [Edit::patch(text), Edit::merge(text), Edit::set(text)] {
                match edit {
                    // An edit returns a valid payload or an error.
                    Ok(edit) => for payload in [None, Some(&*payload), Some(&**text)] {
                        if let Ok(Some(json)) = edit.make(payload) {
                            prop_assert!(!json.as_str().contains('\0'));
                        }
                    },
                    Err(error) => prop_assert!(error.is_invalid()),
                }
            }
        }
    }

    #[test]
    fn a_patch_is_a_function_of_the_payload(
        operations in vec(operation(), 0..5),
        payload in payload(),
    ) {
        let patch = Value::from(operations).to_string();
        if let Ok(edit) = Edit::patch(&patch) {
            let once = made(&edit, &payload);
            prop_assert_eq!(&once, &made(&edit, &payload), "it is a function");
            if patch == "[]" {
                prop_assert_eq!(once, Ok(payload));
            }
        }
    }

    #[test]
    fn a_merge_patch_determines_its_members(patch in payload(), payload in payload()) {
        let edit = Edit::merge(&patch.to_string()).expect("JSON");
        let once = made(&edit, &payload).expect("a merge always fits");
        prop_assert_eq!(made(&edit, &once).expect("again"), once.clone(), "twice is once");
        match &patch {
            Value::Object(members) => for (name, value) in members {
                match value {
                    Value::Null => prop_assert_eq!(once.get(name), None),
                    Value::Object(_) => prop_assert!(once[name].is_object()),
                    value @ (Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
                        prop_assert_eq!(&once[name], value);
                    }
                }
            },
            other @ (Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_)) => {
                prop_assert_eq!(&once, other);
            }
        }
    }

    #[test]
    fn a_whole_payload_replaces_any_other(new in payload(), old in super::json()) {
        let edit = Edit::set(&new.to_string()).expect("a payload");
        match edit.make(Some(&old)) {
            Ok(Some(json)) => prop_assert_eq!(json.as_str(), new.to_string()),
            Ok(None) => prop_assert_eq!(serde_json::from_str::<Value>(&old).ok(), Some(new)),
            // The old payload was not one that the database can store.
            Err(_) => prop_assert!(serde_json::from_str::<Value>(&old).is_err()),
        }
    }
}
