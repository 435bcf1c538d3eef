//! Database URLs and the secrets in them.

use proptest::prelude::*;

use super::{config, text};
use crate::db::url::ConnectOptions;

/// A secret that must not appear in any message.
const SECRET: &str = "s3cr3t";

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_text_is_an_address_or_rejected_without_its_secret(
        before in "(postgres(ql)?://)?[a-z0-9@:/?=&% ']{0,20}",
        name in "(password=|:|sslmode=|sslkey=|sslcert=|options=|port=|connect_timeout=|[a-z_]{1,8}=)",
        after in prop_oneof!["[a-z0-9@:/?=&% '\\\\]{0,20}", text()],
    ) {
        let address = format!("{before}{name}{SECRET}{after}");
        match address.parse::<ConnectOptions>() {
            Ok(address) => {
                let password = address.config().get_password();
                if password.is_some_and(|password| password.windows(SECRET.len()).any(|part| part == SECRET.as_bytes())) {
                    prop_assert!(!format!("{address:?}").contains(SECRET), "{address:?}");
                }
            }
            Err(error) => {
                prop_assert!(error.is_invalid());
                prop_assert!(!error.to_string().contains(SECRET), "{error}");
                // Its cause may name the file.
                let has_file = matches!(&*name, "sslkey=" | "sslcert=");
                prop_assert!(has_file || !format!("{error:#}").contains(SECRET), "{error:#}");
            }
        }
    }
}
