//! Names of queues, kinds and dependencies.

use proptest::prelude::*;

use super::{config, text};
use crate::job::job::JobId;
use crate::job::name::{MAX_KIND_CHARS, MAX_NAME_CHARS, check, kept};
use crate::job::new_job::NewJob;

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_name_is_accepted_or_rejected_for_its_fault(name in text()) {
        let good = |longest| (1..=longest).contains(&name.chars().count())
            && !name.contains(char::is_control)
            && name.trim_matches(' ') == name;
        let of_kind = good(MAX_KIND_CHARS);
        let good = good(MAX_NAME_CHARS);
        match check("queue", &name) {
            Ok(()) => prop_assert!(good),
            Err(error) => {
                prop_assert!(!good && error.is_invalid());
                let message = error.to_string();
                prop_assert!(!message.contains(char::is_control) && message.len() < 3000, "{message}");
            }
        }
        prop_assert_eq!(NewJob::raw(&name, "1").is_ok(), of_kind);
    }

    #[test]
    fn the_name_of_a_failure_is_valid_or_dropped(name in text()) {
        if let Some(left) = kept(&name) {
            prop_assert!(check("dependency", &left).is_ok(), "{left:?}");
            prop_assert_eq!(kept(&left), Some(left));
        }
    }

    #[test]
    fn an_id_is_a_positive_number_or_rejected(text in text()) {
        let read = text.parse::<JobId>();
        let number = text.parse::<i64>().ok().filter(|id| *id > 0);
        prop_assert_eq!(read.as_ref().ok().map(|id| id.get()), number);
        if let Err(error) = read {
            prop_assert!(!error.to_string().contains(char::is_control));
        }
    }
}
