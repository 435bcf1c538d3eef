//! Database URLs and the secrets in them.

use proptest::prelude::*;

use super::{config, text};
use crate::db::url::ConnectOptions;

/// A secret that must not appear in any message.
const SECRET: &str = "s3cr3t";

proptest! {
    #![proptest_config(config())]

    #[test]
    fn any_text_is_an_address_or_rejected(address in text()) {
        if let Err(error) = address.parse::<ConnectOptions>() {
            prop_assert!(error.is_invalid());
        }
    }

    #[test]
    fn no_message_contains_a_secret(
        before in "(postgres(ql)?://)?[a-z0-9@:/?=&% ']{0,20}",
        name in "(password=|:|sslmode=|sslkey=|sslcert=|options=|port=|connect_timeout=|[a-z_]{1,8}=)",
        after in "[a-z0-9@:/?=&% '\\\\]{0,20}",
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
                prop_assert!(!error.to_string().contains(SECRET), "{error}");
                let mut cause = std::error::Error::source(&error);
                while let Some(error) = cause {
                    prop_assert!(!error.to_string().contains(SECRET) || name == "sslkey=" || name == "sslcert=", "{error}");
                    cause = error.source();
                }
            }
        }
    }

    #[test]
    fn a_remote_host_is_never_contacted_without_tls_unless_configured(
        host in "[a-z]{1,8}(\\.[a-z]{2,4})?|[0-9]{1,3}\\.[0-9]{1,3}\\.[0-9]{1,3}\\.[0-9]{1,3}",
        mode in proptest::option::of(text()),
    ) {
        let is_here = host == "localhost" || host.parse().is_ok_and(|ip: std::net::Ipv4Addr| ip.is_loopback());
        let mode_word = mode.as_deref().map_or_else(String::new, |mode| {
            let encoded = percent_encoding::percent_encode(mode.as_bytes(), percent_encoding::NON_ALPHANUMERIC);
            format!("?sslmode={encoded}")
        });
        if let Ok(address) = format!("postgres://me@{host}/shop{mode_word}").parse::<ConnectOptions>() {
            prop_assert!(address.is_encrypted() || is_here || mode.as_deref() == Some("disable"));
        }
    }
}
