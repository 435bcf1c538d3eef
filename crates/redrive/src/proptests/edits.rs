//! Edits: merge patches and whole payloads.

use proptest::prelude::*;

use super::{config, text};
use crate::dlq::edit::Edit;
use crate::job::payload::Json;

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_text_is_an_edit_or_rejected(
        edit in text(),
        json in super::json(),
        payload in super::json(),
    ) {
        for text in [&edit, &json] {
            for edit in [Edit::patch(text), Edit::merge(text), Edit::set(text)] {
                match edit {
                    // An edit returns a valid payload or an error.
                    Ok(edit) => for old in [None, Some(&*payload), Some(&**text)] {
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
