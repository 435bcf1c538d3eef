//! Names of queues, kinds and dependencies.

use proptest::prelude::*;

use super::{config, text};
use crate::job::{JobId, NewJob};
use crate::name::{NAME_CHARACTERS, check, cleaned};

proptest! {
    #![proptest_config(config())]

    #[test]
    fn a_name_is_taken_or_refused_for_what_is_wrong_with_it(name in text()) {
        let good = (1..=NAME_CHARACTERS).contains(&name.chars().count())
            && !name.contains(char::is_control)
            && name.trim_matches(' ') == name;
        match check("queue", &name) {
            Ok(()) => prop_assert!(good),
            Err(error) => {
                prop_assert!(!good && error.is_invalid());
                let told = error.to_string();
                prop_assert!(!told.contains(char::is_control) && told.len() < 3000, "{told}");
            }
        }
        prop_assert_eq!(NewJob::raw(&name, "1").is_ok(), good);
    }

    #[test]
    fn what_is_left_of_a_name_is_one_or_nothing(name in text()) {
        let left = cleaned(&name);
        prop_assert!(left.is_empty() || check("dependency", &left).is_ok(), "{left:?}");
        prop_assert_eq!(cleaned(&left), left.clone());
    }

    #[test]
    fn an_id_is_a_number_or_refused(text in text()) {
        let read = text.parse::<JobId>();
        prop_assert_eq!(read.as_ref().ok().map(|id| id.get()), text.parse::<i64>().ok());
        if let Err(error) = read {
            prop_assert!(!error.to_string().contains(char::is_control));
        }
    }
}
